from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.plan import KINDS, MOST_AT_ONCE, RECOVERY, Fault, chosen, plan

SEEDS = st.integers(0, 10_000)


@given(SEEDS, st.sets(st.sampled_from(sorted(KINDS)), min_size=1))
def test_the_same_seed_is_the_same_plan(seed: int, names: set[str]) -> None:
    kinds = chosen(sorted(names))
    assert plan(seed, 60, 10, kinds) == plan(seed, 60, 10, kinds)
    assert {fault.kind for fault in plan(seed, 60, 10, kinds)} <= names


@given(SEEDS)
def test_a_service_recovers_before_it_is_hurt_again(seed: int) -> None:
    faults = plan(seed, 120, 40, KINDS)
    assert faults == sorted(faults, key=lambda fault: fault.at)
    for number, fault in enumerate(faults):
        unhealed = [f for f in faults[:number] if f.at + f.seconds + RECOVERY > fault.at]
        assert fault.resource not in {f.resource for f in unhealed}
        assert len(unhealed) < MOST_AT_ONCE


def test_a_long_run_has_faults_of_all_kinds() -> None:
    assert {fault.kind for fault in plan(1, 3000, 20, KINDS)} == set(KINDS)


@pytest.mark.parametrize(
    ("target", "resource"),
    [("runner-2", "runner"), ("runner-1/dispatcher-2", "runner"), ("postgres", "postgres")],
)
def test_a_link_hurts_whom_it_belongs_to(target: str, resource: str) -> None:
    assert Fault(0, "link.cut", target, 1).resource == resource


def test_kinds_are_chosen_by_their_beginnings() -> None:
    assert set(chosen(["nats", "runner.kill"])) == {
        "nats.kill",
        "nats.freeze",
        "nats.wipe",
        "nats.delete",
        "runner.kill",
    }
    assert chosen([]) == KINDS
    with pytest.raises(ValueError, match=r"no such fault: moon; there are dispatcher\.kill"):
        chosen(["moon"])
