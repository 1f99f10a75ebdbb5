"""A short session of a fixed seed, so that every day's tests hurt the mesh under load.

`make faults` runs longer ones; what one of them finds becomes a test where it belongs.
"""

from __future__ import annotations

import pytest

from tests.faults import report
from tests.faults.chaos import Timeline
from tests.faults.plan import KINDS
from tests.faults.session import Script, play

SECONDS = 15
RATE = 30
FAULTS_A_MINUTE = 30


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [12])
async def test_a_mesh_that_is_hurt_keeps_its_promises(seed: int) -> None:
    script = Script(
        seed=seed,
        seconds=SECONDS,
        rate=RATE,
        faults_a_minute=FAULTS_A_MINUTE,
        kinds=KINDS,
    )
    told: list[str] = []
    verdict = await play(script, Timeline(told.append))
    said = [f"seed {seed}", *told, *report.summary(verdict)]
    assert not verdict.violations, "\n".join((*said, *report.violations(verdict)))
    assert verdict.history.acknowledged(), "\n".join(said)
    assert verdict.jobs["SUCCEEDED COMPLETED"], "\n".join(said)
