"""Health follows readiness: not at the first hiccup, and back at once."""

from __future__ import annotations

from jobmesh.server.readiness import Readiness
from jobmesh.server.serving import Serving
from tests.support.wait import until


class Health:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[bool] = []

    def set_serving(self, serving: bool) -> None:
        self.told.append(serving)


class Dependency:
    """Is there, or not."""

    def __init__(self) -> None:
        self.there = True

    async def check(self) -> bool:
        return self.there


def parts() -> tuple[Health, Dependency, Serving]:
    health, dependency = Health(), Dependency()
    readiness = Readiness(max_age_seconds=0.0)
    readiness.add("dependency", dependency.check)
    return health, dependency, Serving(health, readiness, interval_seconds=0.005)


async def test_one_bad_report_changes_nothing() -> None:
    health, dependency, serving = parts()
    for there in (True, False, True, False, True):
        dependency.there = there
        await serving.look()
    assert health.told == []


async def test_two_in_a_row_do_and_the_first_good_one_ends_it() -> None:
    health, dependency, serving = parts()
    for there in (False, False, False, True, True):
        dependency.there = there
        await serving.look()
    assert health.told == [False, True]


async def test_it_looks_by_itself() -> None:
    health, dependency, serving = parts()
    await serving.start()
    try:
        dependency.there = False
        await until(lambda: health.told == [False], 5)
        dependency.there = True
        await until(lambda: health.told == [False, True], 5)
    finally:
        await serving.stop()
