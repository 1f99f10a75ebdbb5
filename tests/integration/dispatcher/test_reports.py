"""Reports of runners that are hostile, repeated, or in bad company."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from jobmesh.errors import PayloadTooLarge
from jobmesh.v1 import runner_service_pb2 as pb
from jobmesh.v1.job_pb2 import JobError, Payload, Progress
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.lease import Lease, holder_columns
from jobmesh_dispatcher.report_limits import MOST_BYTES
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.finish import Ended
from jobmesh_dispatcher.store.sessions import take_back
from tests.support import decisions as d
from tests.support.dispatchers import Dispatcher, dispatcher
from tests.support.wait import until


@pytest.fixture
async def db(database: str) -> AsyncIterator[Database]:
    async with d.opened(database) as opened:
        await d.make_queue(opened)
        yield opened


@pytest.fixture
async def one(db: Database) -> AsyncIterator[Dispatcher]:
    async with dispatcher(db) as started:
        yield started


async def leased(db: Database, number: int = 1, queue: str = d.QUEUE) -> list[Lease]:
    jobs = [await d.store_one(db, queue=queue) for _ in range(number)]
    seat = await d.attach(db, free=number)
    claimed = d.leases(await d.claim_all(db, jobs, seat, queue=queue))
    for lease in claimed:
        lease.attachment = seat.attachment
    return claimed


def report(lease: Lease, **outcome: object) -> Ended:
    return Ended(
        pb.Report(job_id=str(lease.job_id), attempt=lease.attempt, **outcome),  # type: ignore[arg-type]
        lease,
    )


POISON: list[dict[str, object]] = [
    {"failed": pb.Failed(error=JobError(type="a\0b", message="c\0d", traceback="e\0f"))},
    {"succeeded": pb.Succeeded(result=Payload(data=b"1", content_type="text/\0"))},
    {"succeeded": pb.Succeeded(), "run_seconds": float("nan")},
    {"succeeded": pb.Succeeded(), "run_seconds": float("inf")},
    {"succeeded": pb.Succeeded(), "run_seconds": 1e300},
    {"failed": pb.Failed(), "progress": Progress(message="\0", fraction=float("nan"))},
]


@pytest.mark.parametrize("poison", POISON, ids=range(len(POISON)))
async def test_a_poisoned_report_ends_its_job_and_spoils_no_other(
    db: Database, one: Dispatcher, poison: dict[str, object]
) -> None:
    bad, *good = await leased(db, 4)
    ended = [report(bad, **poison), *map(d.succeeded, good)]
    assert await asyncio.wait_for(one.reports.outcomes(ended), 10) == [True] * 4
    states = [(await d.job(db, lease.job_id))["state"] for lease in good]
    assert states == ["SUCCEEDED"] * 3
    assert (await d.job(db, bad.job_id))["state"] in ("SUCCEEDED", "DEAD")


async def test_a_snooze_without_end_is_cut(db: Database, one: Dispatcher) -> None:
    (lease,) = await leased(db)
    snoozed = pb.Snoozed()
    snoozed.delay.seconds = 2**62
    assert await one.reports.outcomes([report(lease, snoozed=snoozed)]) == [True]
    assert (await d.job(db, lease.job_id))["state"] == "SCHEDULED"


async def test_a_report_that_is_refused_in_spite_of_it_buries_its_job_alone(
    db: Database, one: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    await db.fetch(
        """ALTER TABLE jobmesh.jobs_history ADD CONSTRAINT unforeseen
           CHECK (result_type IS NULL OR result_type <> 'unforeseen')"""
    )
    bad, *good = await leased(db, 9)
    payload = Payload(data=b"private", content_type="unforeseen")
    ended = [*map(d.succeeded, good), report(bad, succeeded=pb.Succeeded(result=payload))]
    assert await asyncio.wait_for(one.reports.outcomes(ended), 20) == [True] * 9
    row = await d.job(db, bad.job_id)
    assert (row["state"], row["reason"]) == ("DEAD", "NON_RETRYABLE")
    assert [(await d.job(db, lease.job_id))["state"] for lease in good] == ["SUCCEEDED"] * 8
    assert "unforeseen" in caplog.text
    assert b"private".hex() not in caplog.text


@pytest.mark.parametrize("state", ["SUCCEEDED", "DEAD"])
async def test_a_day_of_history_that_is_made_just_then_refuses_no_report(
    db: Database, one: Dispatcher, state: str
) -> None:
    """Its job was on the way to the rest partition, which may not have it any more."""
    (lease,) = await leased(db)
    ended = d.succeeded(lease) if state == "SUCCEEDED" else d.failed(lease, retryable=False)
    async with db.transaction() as connection:
        assert await connection.fetchval(
            "SELECT jobmesh.make_partition($1, (now() AT TIME ZONE 'UTC')::date)",
            f"jobs_{state.lower()}",
        )
        reporting = asyncio.create_task(one.reports.outcomes([ended]))
        await d.blocked(db)
    assert await asyncio.wait_for(reporting, 10) == [True]
    row = await d.job(db, lease.job_id)
    assert row["state"] == state
    assert row["attempts"][0]["error_type"] != "NotStorable"


async def test_a_checkpoint_is_made_fit_or_refused(db: Database, one: Dispatcher) -> None:
    (lease,) = await leased(db)
    assert await one.reports.checkpoint(lease, Payload(data=b"1", content_type="a\0"))
    with pytest.raises(PayloadTooLarge):
        await one.reports.checkpoint(lease, Payload(data=b"x" * (MOST_BYTES + 1)))


async def test_a_line_of_log_is_made_fit(db: Database, one: Dispatcher) -> None:
    (lease,) = await leased(db)
    written = one.reports.logs.line(lease, 70_000, "a\0b")  # type: ignore[arg-type]
    assert written is not None
    await written
    rows = await db.fetch("SELECT message, level FROM jobmesh.job_logs")
    assert [(row["message"], row["level"]) for row in rows] == [("a\N{REPLACEMENT CHARACTER}b", 0)]


async def test_an_attachment_that_was_left_overwrites_nothing_of_the_next(
    db: Database, one: Dispatcher
) -> None:
    """Its late checkpoint, progress and lines of log are of before the runner moved."""
    (lease,) = await leased(db)
    there = replace(lease, attachment=d.uid())
    assert await one.reports.checkpoint(lease, Payload(data=b"first"))
    assert await d.reattach(db, d.seat_of(there))
    assert await one.reports.checkpoint(there, Payload(data=b"second"))
    assert not await one.reports.checkpoint(lease, Payload(data=b"late"))
    for each, message in ((there, "second"), (lease, "late")):
        progress = Progress(message=message).SerializeToString()
        await db.fetch(load("save_progress"), *holder_columns([each]), [progress])
        written = one.reports.logs.line(each, 0, message)  # type: ignore[arg-type]
        assert written is not None
        await written
    (row,) = await db.fetch("SELECT checkpoint, progress, log_lines FROM jobmesh.jobs_live")
    assert (row["checkpoint"], row["log_lines"]) == (b"second", 1)
    assert Progress.FromString(row["progress"]).message == "second"
    lines = await db.fetch("SELECT message FROM jobmesh.job_logs")
    assert [line["message"] for line in lines] == ["second"]


async def test_a_move_waits_for_the_checkpoint_that_is_being_stored(
    db: Database, one: Dispatcher
) -> None:
    (lease,) = await leased(db)
    async with db.transaction() as connection:  # whatever else keeps it from being stored
        await connection.execute("SELECT 1 FROM jobmesh.jobs_live FOR UPDATE")
        storing = asyncio.create_task(one.reports.checkpoint(lease, Payload(data=b"1")))
        await d.blocked(db)
        moving = asyncio.create_task(d.reattach(db, d.seat_of(replace(lease, attachment=d.uid()))))
        await until(lambda: d.waiting(db, 2), describe="both wait")
    assert await asyncio.wait_for(storing, 10)
    assert await asyncio.wait_for(moving, 10)


async def test_the_last_progress_is_kept_though_it_was_not_written_yet(
    db: Database, one: Dispatcher
) -> None:
    (lease,) = await leased(db)
    one.reports.progress(lease, Progress(fraction=0.75, message="nearly"))
    await one.reports.outcomes([d.succeeded(lease)])
    (row,) = await db.fetch(
        "SELECT progress FROM jobmesh.jobs_history WHERE job_id = $1", lease.job_id
    )
    assert Progress.FromString(row["progress"]).message == "nearly"


async def test_an_attempt_that_is_reported_twice_at_once_gives_one_slot_back(db: Database) -> None:
    await d.make_queue(db, "few", max_running=5)
    lease, _ = await leased(db, 2, queue="few")
    recorded = await d.report(db, d.failed(lease), d.succeeded(lease))
    assert recorded.settled == {lease.key}
    (row,) = await db.fetch("SELECT running FROM jobmesh.queue_slots WHERE queue = 'few'")
    assert row["running"] == 1


async def test_a_success_of_a_queue_that_was_limited_meanwhile_gives_its_slot_back(
    db: Database, one: Dispatcher
) -> None:
    leases = await leased(db, 2)
    await d.make_queue(db, max_running=5)
    await db.fetch("UPDATE jobmesh.jobs_live SET slot = true")  # as the change of a limit does
    await db.fetch("UPDATE jobmesh.queue_slots SET running = 2")
    assert await one.reports.outcomes([d.succeeded(leases[0])]) == [True]
    (row,) = await db.fetch("SELECT running FROM jobmesh.queue_slots")
    assert row["running"] == 1


async def test_successes_that_are_repeated_beside_new_ones_are_all_answered(
    db: Database, one: Dispatcher
) -> None:
    first, second, lost = await leased(db, 3)
    await db.run(lambda c: take_back(c, lost.session_id, [lost.job_id], crashed=False))
    assert await one.reports.outcomes([d.succeeded(first)]) == [True]
    ended = list(map(d.succeeded, (first, second, lost)))
    assert await one.reports.outcomes(ended) == [True, True, False]
    assert (await d.job(db, lost.job_id))["state"] == "QUEUED"


async def test_a_count_that_is_wrong_keeps_no_job_from_ending(db: Database) -> None:
    await d.make_queue(db, "few", max_running=5)
    (lease,) = await leased(db, queue="few")
    await db.fetch("UPDATE jobmesh.queue_slots SET running = 0")
    assert (await d.report(db, d.succeeded(lease))).settled == {lease.key}
