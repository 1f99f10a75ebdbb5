"""What waits for a watcher is bounded, in order, and never a change too few."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobmesh.v1.job_pb2 import JobEvent, LogLine, Progress, StateChange
from jobmesh_gateway.mailbox import MAX_CHANGES, MAX_LINE_BYTES, MAX_LINES, Mailbox


def change(number: int) -> JobEvent:
    return JobEvent(state_changed=StateChange(revision=number))


def progress(number: int) -> JobEvent:
    return JobEvent(progress=Progress(current=number))


def line(number: int, text: str = "") -> JobEvent:
    return JobEvent(log=LogLine(sequence=number, message=text))


def put(mailbox: Mailbox, event: JobEvent) -> None:
    kind = event.WhichOneof("event")
    assert kind is not None
    mailbox.put(event, kind, event.ByteSize())


def drain(mailbox: Mailbox) -> list[JobEvent]:
    events = []
    while (event := mailbox.pop()) is not None:
        events.append(event)
    return events


@given(st.lists(st.sampled_from([change, progress, line]), max_size=100))
def test_only_progress_is_left_out_and_the_order_is_kept(kinds: list[object]) -> None:
    events = [make(number) for number, make in enumerate(kinds)]  # type: ignore[operator]
    mailbox = Mailbox()
    for event in events:
        put(mailbox, event)
    latest = max((i for i, e in enumerate(events) if e.HasField("progress")), default=-1)
    expected = [e for i, e in enumerate(events) if not e.HasField("progress") or i == latest]
    assert drain(mailbox) == expected
    assert mailbox.pop() is None


def test_one_change_too_many_closes_it_and_frees_everything() -> None:
    mailbox = Mailbox()
    put(mailbox, progress(1))
    for number in range(MAX_CHANGES):
        put(mailbox, change(number))
    before = mailbox.overflowed
    put(mailbox, change(MAX_CHANGES))
    assert (before, mailbox.overflowed) == (False, True)
    put(mailbox, line(1))
    assert mailbox.pop() is None


def test_old_lines_are_dropped_by_number_and_counted() -> None:
    mailbox = Mailbox()
    for number in range(MAX_LINES + 10):
        put(mailbox, line(number))
    assert [event.log.sequence for event in drain(mailbox)] == list(range(10, MAX_LINES + 10))
    assert mailbox.dropped == 10


def test_old_lines_are_dropped_by_size() -> None:
    mailbox = Mailbox()
    for number in range(100):
        put(mailbox, line(number, "x" * 8192))
    kept = drain(mailbox)
    assert kept[-1].log.sequence == 99
    assert sum(event.ByteSize() for event in kept) <= MAX_LINE_BYTES
    assert len(kept) > 10


def test_progress_that_nobody_reads_takes_one_place() -> None:
    mailbox = Mailbox()
    for number in range(10_000):
        put(mailbox, progress(number))
    assert [event.progress.current for event in drain(mailbox)] == [9999]
