"""A watch tells each revision once and in order, whatever its streams lose and repeat."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobmesh.client import (
    ChangesLost,
    CheckpointStored,
    Ended,
    Event,
    Logged,
    ProgressMade,
    Snapshot,
    StateChanged,
)
from jobmesh.client.follower import Follower
from jobmesh.states import State
from jobmesh.v1 import job_pb2

QUEUED, RUNNING, SUCCEEDED = (
    job_pb2.JOB_STATE_QUEUED,
    job_pb2.JOB_STATE_RUNNING,
    job_pb2.JOB_STATE_SUCCEEDED,
)


def change(revision: int, last: int = 0) -> job_pb2.StateChange:
    state = SUCCEEDED if revision == last else (QUEUED if revision % 2 else RUNNING)
    return job_pb2.StateChange(revision=revision, state=state)


def job_at(revision: int, last: int = 0, first_kept: int = 1) -> job_pb2.Job:
    changes = [change(r, last) for r in range(first_kept, revision + 1)]
    return job_pb2.Job(job_id="j", revision=revision, state=changes[-1].state, history=changes)


def snapshot(revision: int, last: int = 0, first_kept: int = 1) -> job_pb2.JobEvent:
    return job_pb2.JobEvent(snapshot=job_at(revision, last, first_kept))


def changed(revision: int, last: int = 0) -> job_pb2.JobEvent:
    return job_pb2.JobEvent(revision=revision, state_changed=change(revision, last))


def terminal(revision: int) -> job_pb2.JobEvent:
    return job_pb2.JobEvent(terminal=job_at(revision, revision))


def revisions(events: list[Event]) -> list[int]:
    return [event.change.revision for event in events if isinstance(event, StateChanged)]


def test_a_watch_begins_with_the_job_and_its_history_and_ends_with_the_job() -> None:
    follower = Follower()
    events = follower.accept(snapshot(2)) + follower.accept(terminal(3))
    assert [type(event) for event in events] == [
        Snapshot,
        StateChanged,
        StateChanged,
        StateChanged,
        Ended,
    ]
    assert revisions(events) == [1, 2, 3]
    assert follower.ended
    assert isinstance(events[-1], Ended)
    assert events[-1].job.state is State.SUCCEEDED


def test_changes_that_the_watcher_saw_before_are_left_out() -> None:
    follower = Follower(after_revision=2)
    assert revisions(follower.accept(snapshot(4)) + follower.accept(changed(4))) == [3, 4]


def test_a_gap_in_a_stream_asks_for_a_new_one_whose_history_fills_it() -> None:
    follower = Follower()
    follower.accept(snapshot(1))
    assert follower.accept(changed(3)) == []
    assert follower.resume
    assert revisions(follower.accept(snapshot(3))) == [2, 3]


def test_a_new_stream_does_not_repeat_the_snapshot() -> None:
    follower = Follower()
    follower.accept(snapshot(1))
    assert follower.accept(snapshot(1)) == []


def test_changes_that_are_no_longer_kept_are_owned_up_to() -> None:
    follower = Follower()
    events = follower.accept(snapshot(9, first_kept=5))
    assert events[1] == ChangesLost(1, 4)
    assert revisions(events) == [5, 6, 7, 8, 9]
    gap = job_pb2.JobEvent(gap=job_pb2.Gap(first_revision=10, last_revision=12))
    assert follower.accept(gap) == [ChangesLost(10, 12)]
    assert follower.revision == 12


def test_a_stream_that_says_reconnect_is_replaced() -> None:
    follower = Follower()
    assert follower.accept(job_pb2.JobEvent(reconnect=job_pb2.Reconnect())) == []
    assert follower.resume


def test_what_happens_between_changes_is_told() -> None:
    follower = Follower()
    told = follower.accept(job_pb2.JobEvent(progress=job_pb2.Progress(fraction=0.5)))
    assert isinstance(told[0], ProgressMade)
    assert told[0].progress.fraction == 0.5
    stored = job_pb2.CheckpointStored(attempt=1, size_bytes=7)
    assert follower.accept(job_pb2.JobEvent(checkpoint=stored)) == [CheckpointStored(1, 7)]
    assert follower.accept(job_pb2.JobEvent(heartbeat=job_pb2.Heartbeat())) == []
    assert follower.accept(job_pb2.JobEvent()) == []


def test_a_repeated_log_line_is_told_once() -> None:
    follower = Follower()
    line = job_pb2.JobEvent(log=job_pb2.LogLine(sequence=1, message="hello"))
    assert [type(event) for event in follower.accept(line)] == [Logged]
    assert follower.accept(line) == []


@given(
    last=st.integers(2, 12),
    streams=st.lists(
        st.tuples(
            st.integers(1, 12),  # the snapshot's revision
            st.booleans(),  # whether changes before it are repeated
            st.lists(st.integers(1, 12)),  # changes, lost, repeated and out of order
        ),
        max_size=5,
    ),
    after=st.integers(0, 3),
)
def test_any_streams_add_up_to_every_revision_in_order(
    last: int, streams: list[tuple[int, bool, list[int]]], after: int
) -> None:
    follower = Follower(after)
    told: list[int] = []
    for at, repeated, later in [*streams, (1, False, [])]:
        messages = [snapshot(min(at, last), last)]
        messages += [changed(r, last) for r in range(1, min(at, last) + 1) if repeated]
        messages += [changed(min(r, last), last) for r in later]
        for message in messages:
            told += revisions(follower.accept(message))
            if follower.resume:
                follower.resume = False
                break
    told += revisions(follower.accept(terminal(last)))
    assert told == list(range(after + 1, last + 1))
    assert follower.ended
