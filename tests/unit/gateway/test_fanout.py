"""Who is told what: by job and kind, with bounds, and nobody is forgotten by the drain."""

from __future__ import annotations

import asyncio

import pytest

from jobmesh.errors import Draining, Overloaded
from jobmesh.ids import bucket_of, new_id
from jobmesh.v1.broker_pb2 import EventBatch
from jobmesh.v1.job_pb2 import JobEvent, LogLine, Progress, StateChange
from jobmesh_gateway.fanout import CROWD, Watchers


def changed(job_id: str, revision: int = 1) -> JobEvent:
    return JobEvent(job_id=job_id, state_changed=StateChange(revision=revision))


async def test_events_reach_those_who_watch_the_job_and_want_the_kind() -> None:
    watchers = Watchers(10)
    job_id = new_id()
    states, logs = watchers.add(job_id, ()), watchers.add(job_id, ("log",))
    other = watchers.add(new_id(), ("log",))
    line = JobEvent(job_id=job_id, log=LogLine(sequence=1))
    progress = JobEvent(job_id=job_id, progress=Progress(fraction=0.5))
    batch = EventBatch(events=[changed(job_id), line, progress, JobEvent(job_id=job_id)])
    watchers.deliver(batch.events)
    assert states.mailbox.pop() == changed(job_id)
    assert states.mailbox.pop() is None
    assert [logs.mailbox.pop(), logs.mailbox.pop(), logs.mailbox.pop()] == [
        changed(job_id),
        line,
        None,
    ]
    assert other.mailbox.pop() is None
    assert states.wake.is_set()
    assert not other.wake.is_set()


async def test_an_event_does_not_keep_its_batch() -> None:
    watchers = Watchers(10)
    job_id = new_id()
    first, second = watchers.add(job_id, ()), watchers.add(job_id, ())
    batch = EventBatch(events=[changed(job_id)])
    watchers.deliver(batch.events)
    batch.events[0].revision = 99
    taken = first.mailbox.pop()
    assert taken == changed(job_id)
    assert second.mailbox.pop() is taken, "one copy serves all"


async def test_the_announcement_names_the_buckets_of_watched_jobs() -> None:
    watchers = Watchers(10)
    job_id = new_id()
    bucket = bucket_of(job_id)
    watcher, twin = watchers.add(job_id, ()), watchers.add(job_id, ())
    assert watchers.wants(bucket)
    assert watchers.wanted()[bucket // 8] == 1 << bucket % 8
    assert len(watchers.wanted()) == 32
    watchers.remove(watcher)
    watchers.remove(watcher)
    assert watchers.wants(bucket)
    watchers.remove(twin)
    assert not watchers.wants(bucket)
    assert watchers.wanted() == bytes(32)
    assert not watchers.wants(256)


async def test_the_number_of_watches_is_bounded() -> None:
    watchers = Watchers(2)
    kept = [watchers.add(new_id(), ()) for _ in range(2)]
    with pytest.raises(Overloaded):
        watchers.add(new_id(), ())
    watchers.remove(kept[0])
    watchers.add(new_id(), ())
    assert len(watchers) == 2


async def test_the_tick_wakes_those_that_are_due() -> None:
    watchers = Watchers(2)
    due, later = watchers.add(new_id(), ()), watchers.add(new_id(), ())
    later.due = asyncio.get_running_loop().time() + 60
    await watchers.tick()
    assert due.wake.is_set()
    assert not later.wake.is_set()


async def test_a_crowd_is_told_of_progress_at_the_tick_and_of_the_rest_at_once() -> None:
    watchers = Watchers(100)
    job_id = new_id()
    crowd = [watchers.add(job_id, ("progress",)) for _ in range(CROWD + 1)]
    for watcher in crowd:
        watcher.due = float("inf")
    steps = [JobEvent(job_id=job_id, progress=Progress(current=n)) for n in (1, 2)]
    watchers.deliver(steps)
    assert not any(watcher.wake.is_set() for watcher in crowd)
    await watchers.tick()
    assert all(watcher.wake.is_set() for watcher in crowd)
    for watcher in crowd:
        watcher.wake.clear()
        assert watcher.mailbox.pop() == steps[1]
    watchers.deliver([steps[0], changed(job_id)])
    assert all(watcher.wake.is_set() for watcher in crowd)
    watchers.remove(crowd.pop())
    crowd[0].wake.clear()
    watchers.deliver(steps)
    assert crowd[0].wake.is_set(), "a few are told at once"


async def test_lost_events_make_everybody_read() -> None:
    watchers = Watchers(2)
    watcher = watchers.add(new_id(), ())
    watchers.reread()
    assert watcher.reread
    assert watcher.wake.is_set()


async def test_the_drain_waits_until_all_are_gone_and_takes_no_more() -> None:
    watchers = Watchers(2)
    watcher = watchers.add(new_id(), ())
    draining = asyncio.create_task(watchers.drain())
    await watcher.wait()
    assert watcher.closing
    assert not draining.done()
    with pytest.raises(Draining):
        watchers.add(new_id(), ())
    watchers.remove(watcher)
    await draining
