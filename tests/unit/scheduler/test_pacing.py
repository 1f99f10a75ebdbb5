"""How long duties wait between their turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobmesh.v1 import dispatch_service_pb2 as pb
from jobmesh_scheduler.duties import LONGEST_BACKOFF, backoff
from jobmesh_scheduler.election import Timing
from jobmesh_scheduler.promotion import LONGEST_PAUSE, SHORTEST_PAUSE, pause
from jobmesh_scheduler.reconciliation import counts


@given(st.one_of(st.none(), st.floats(-10, 1e6)))
def test_a_due_job_waits_a_quarter_of_a_second_at_the_most(due_in: float | None) -> None:
    assert SHORTEST_PAUSE <= pause(due_in) <= LONGEST_PAUSE <= 0.25


@given(st.floats(SHORTEST_PAUSE, LONGEST_PAUSE))
def test_a_job_due_soon_is_waited_for_exactly(due_in: float) -> None:
    assert pause(due_in) == due_in


@given(st.integers(1, 10_000))
def test_backoff_grows_to_its_limit(failures: int) -> None:
    assert 0 < backoff(failures) <= backoff(failures + 1) <= LONGEST_BACKOFF


@given(st.floats(0.2, 60))
def test_followers_read_often_enough_and_leaders_stand_down_before_a_takeover(
    lease: float,
) -> None:
    timing = Timing.of_lease(lease)
    assert timing.read_interval < lease / 4
    assert timing.renew_interval < lease - timing.margin < lease


def test_every_field_of_a_reconciliation_is_counted() -> None:
    answer = pb.ReconcileResponse()
    for number, field in enumerate(answer.DESCRIPTOR.fields, start=1):
        setattr(answer, field.name, number)
    assert sorted(counts(answer).values()) == [1, 2, 3, 4, 5]
