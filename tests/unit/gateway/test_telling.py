"""What is told beside changes of state: never stale, never beyond the last revision told."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.v1.job_pb2 import Heartbeat, Job, JobEvent, LogLine, Progress
from jobmesh_gateway.following import _next_lines
from jobmesh_gateway.telling import SideEvents


def progress(second: int, revision: int = 0) -> JobEvent:
    made = Progress(current=second, update_time=Timestamp(seconds=second))
    return JobEvent(job_id="j", revision=revision, progress=made)


def line(sequence: int) -> JobEvent:
    return JobEvent(job_id="j", log=LogLine(sequence=sequence))


@given(st.lists(st.integers(1, 20)))
def test_progress_never_goes_back(seconds: list[int]) -> None:
    side = SideEvents("j", {"progress"})
    told = [e.progress.current for s in seconds for e in side.accept(progress(s), 1)]
    assert told == sorted(set(told))
    assert not seconds or told[-1] == max(seconds)


@given(st.lists(st.integers(1, 20)))
def test_no_line_is_told_twice(sequences: list[int]) -> None:
    side = SideEvents("j", {"log"})
    told = [e.log.sequence for s in sequences for e in side.accept(line(s), 1)]
    assert told == sorted(set(told))


def test_an_event_ahead_of_its_change_does_not_tell_the_revision() -> None:
    side = SideEvents("j", {"progress"})
    event = progress(1, revision=5)
    (told,) = side.accept(event, 3)
    assert (told.revision, event.revision) == (3, 5)
    assert told.progress == event.progress


def test_the_first_reading_counts_as_told_and_later_ones_tell_what_was_lost() -> None:
    side = SideEvents("j", {"progress"})
    assert side.catch_up(Job(revision=1)) == []
    assert [e.progress.current for e in side.catch_up(Job(progress=progress(5).progress))] == [5]
    assert side.catch_up(Job(progress=progress(5).progress)) == []
    assert side.accept(progress(4), 1) == []
    begun = SideEvents("j", {"progress"})
    assert begun.catch_up(Job(progress=progress(5).progress)) == []
    assert begun.accept(progress(5), 1) == []


def test_progress_is_told_to_those_who_asked() -> None:
    side = SideEvents("j", {"log"})
    side.catch_up(Job())
    assert side.catch_up(Job(progress=progress(5).progress)) == []


@given(st.lists(st.integers(0, 12), max_size=8), st.integers(0, 5))
def test_lines_are_passed_on_only_where_none_is_missing(sequences: list[int], last: int) -> None:
    lines, complete = _next_lines([line(s) for s in sequences], last)
    assert [item.sequence for item in lines] == list(range(last + 1, last + 1 + len(lines)))
    if complete:
        assert max(sequences, default=0) <= last + len(lines), "nothing beyond was left out"


def test_anything_else_is_a_reason_to_look() -> None:
    assert _next_lines([JobEvent(heartbeat=Heartbeat())], 3) == ([], False)
