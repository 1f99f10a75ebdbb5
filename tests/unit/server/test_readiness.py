"""Readiness: what fails is named, nothing hangs, a storm of probes costs one reading."""

from __future__ import annotations

import asyncio

from jobmesh.server.readiness import Readiness
from tests.support.wait import until


async def fine() -> None:
    pass


async def test_ready_when_all_checks_pass() -> None:
    readiness = Readiness()
    readiness.add("a", fine)
    readiness.add("b", fine)
    report = await readiness.report()
    assert report.ready
    assert report.checks == ("a", "b")


async def test_a_failed_check_is_named_without_the_errors_text() -> None:
    async def broken() -> None:
        raise ConnectionError("postgres://user:secret@host")

    async def no() -> bool:
        return False

    readiness = Readiness()
    readiness.add("postgres", broken)
    readiness.add("nats", no)
    readiness.add("ok", fine)
    report = await readiness.report()
    assert report.failed == {"postgres": "ConnectionError", "nats": "failed"}


async def test_a_check_that_hangs_fails_in_time() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    readiness = Readiness(timeout_seconds=0.01)
    readiness.add("postgres", hang)
    async with asyncio.timeout(5):
        report = await readiness.report()
    assert report.failed == {"postgres": "no answer in 0.01 s"}


async def test_many_probes_share_one_reading_and_remember_it() -> None:
    calls = 0

    async def counted() -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.001)

    readiness = Readiness(max_age_seconds=3600)
    readiness.add("a", counted)
    await asyncio.gather(*(readiness.report() for _ in range(100)))
    await readiness.report()
    assert calls == 1


async def test_it_reads_again_when_the_last_reading_is_old() -> None:
    healthy = False

    async def check() -> bool:
        return healthy

    readiness = Readiness(max_age_seconds=0)
    readiness.add("a", check)
    assert not (await readiness.report()).ready
    healthy = True
    assert (await readiness.report()).ready


async def test_what_was_not_ready_is_looked_at_again_soon() -> None:
    healthy = False

    async def check() -> bool:
        return healthy

    async def ready() -> bool:
        return (await readiness.report()).ready

    readiness = Readiness(max_age_seconds=3600)
    readiness.add("a", check)
    assert not await ready()
    healthy = True
    await until(ready, timeout=5)


async def test_a_prober_that_hangs_up_does_not_end_the_reading_of_others() -> None:
    release = asyncio.Event()

    async def slow() -> None:
        await release.wait()

    readiness = Readiness()
    readiness.add("a", slow)
    first = asyncio.create_task(readiness.report())
    second = asyncio.create_task(readiness.report())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait({first})
    release.set()
    assert (await second).ready


async def test_draining_is_not_ready_whatever_the_checks_say() -> None:
    readiness = Readiness()
    readiness.add("a", fine)
    readiness.set_draining()
    report = await readiness.report()
    assert not report.ready
    assert "draining" in report.failed


async def test_stop_ends_a_reading() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    readiness = Readiness(timeout_seconds=60)
    readiness.add("a", hang)
    prober = asyncio.create_task(readiness.report())
    await asyncio.sleep(0)
    await readiness.stop()
    await asyncio.wait({prober})
    assert prober.cancelled()
    await readiness.stop()
