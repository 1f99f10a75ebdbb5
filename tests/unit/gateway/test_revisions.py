"""The merge of events and readings: in order, without a gap, the end once and last."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from jobmesh.v1.job_pb2 import Job, JobState, StateChange
from jobmesh_gateway.revisions import (
    MAX_PENDING,
    TERMINAL,
    Changed,
    Ended,
    Missing,
    RevisionMerge,
    Snapshot,
    Told,
)

KEPT = 256
QUEUED, RUNNING = JobState.JOB_STATE_QUEUED, JobState.JOB_STATE_RUNNING
SUCCEEDED, DEAD = JobState.JOB_STATE_SUCCEEDED, JobState.JOB_STATE_DEAD


def changes(states: list[JobState.ValueType]) -> list[StateChange]:
    return [StateChange(revision=i + 1, state=state) for i, state in enumerate(states)]


def job_at(life: list[StateChange], revision: int, kept: int = KEPT) -> Job:
    """The job as it is read once it has reached the revision."""
    return Job(
        revision=revision,
        state=life[revision - 1].state,
        history=life[max(0, revision - kept) : revision],
    )


@dataclass
class Witness:
    """Checks what a merge tells against what it has promised."""

    after: int
    revision: int = 0
    told: list[Told] = field(default_factory=list)
    missing: int = 0

    def see(self, told: list[Told]) -> None:
        for item in told:
            assert not (self.told and isinstance(self.told[-1], Ended)), "something after the end"
            self._check(item)
            self.told.append(item)

    def _check(self, item: Told) -> None:
        match item:
            case Snapshot(job):
                assert not any(isinstance(earlier, Snapshot) for earlier in self.told)
                if self.after == 0:
                    assert not self.told, "a new watch begins with its snapshot"
                    self.revision = job.revision
                assert job.revision == self.revision
            case Changed(change):
                assert change.revision == self.revision + 1
                self.revision = change.revision
            case Missing(first, last):
                assert first == self.revision + 1
                assert last >= first
                self.missing += last - first + 1
                self.revision = last
            case Ended(job):
                assert job.state in TERMINAL
                assert job.revision == self.revision


# A life ends in a terminal state; on the way it may end and be retried.
lives = st.lists(st.sampled_from([QUEUED, RUNNING, DEAD]), min_size=0, max_size=12).map(
    lambda states: changes([*states, SUCCEEDED])
)


@given(lives, st.data())
def test_any_interleaving_tells_each_revision_once_and_the_end_last(
    life: list[StateChange], data: st.DataObject
) -> None:
    """Events are lost, repeated and reordered; readings see any state up to the present one."""
    after = data.draw(st.integers(0, len(life)), "after_revision")
    kept = data.draw(st.sampled_from([1, 3, KEPT]), "kept history")
    merge, witness = RevisionMerge(after), Witness(after, revision=after)
    now = data.draw(st.integers(max(after, 1), len(life)), "revision at the start")
    for _ in range(data.draw(st.integers(0, 30), "steps")):
        step = data.draw(st.sampled_from(["advance", "event", "old event", "read", "stale read"]))
        if step == "advance":
            now = min(now + 1, len(life))
        elif step == "event":
            witness.see(merge.offer(life[now - 1]))
        elif step == "old event":
            witness.see(merge.offer(life[data.draw(st.integers(0, now - 1))]))
        elif step == "read":
            witness.see(merge.load(job_at(life, now, kept)))
        elif witness.told:
            # A reading that was overtaken by events; the first one is what all begins with.
            stale = data.draw(st.integers(max(after, 1), now))
            witness.see(merge.load(job_at(life, stale, kept)))
    if merge.needs_read:
        witness.see(merge.load(job_at(life, now, kept)))
    witness.see(merge.load(job_at(life, len(life), kept)))
    assert merge.ended
    assert isinstance(witness.told[-1], Ended)
    # It ends with the first terminal state that a reading met.
    assert life[witness.revision - 1].state in TERMINAL
    if kept == KEPT:
        assert witness.missing == 0, "the history had it all"


@given(lives, st.integers(0, 12), st.randoms())
def test_events_alone_need_reads_only_to_begin_and_to_end(
    life: list[StateChange], start: int, random: object
) -> None:
    """In order and complete, events are passed on; the job itself is read twice."""
    start = max(1, min(start, len(life)))
    merge, witness = RevisionMerge(), Witness(0)
    witness.see(merge.load(job_at(life, start)))
    reads = 0
    for change in life[start:]:
        witness.see(merge.offer(change))
        if merge.needs_read:
            reads += 1
            witness.see(merge.load(job_at(life, change.revision)))
            if merge.ended:
                break
    terminal_reached = [c for c in life[start:] if c.state in TERMINAL]
    assert merge.ended
    assert reads <= len(terminal_reached)


def test_events_before_the_first_reading_wait_for_it() -> None:
    life = changes([QUEUED, RUNNING, SUCCEEDED])
    merge, witness = RevisionMerge(), Witness(0)
    witness.see(merge.offer(life[2]))
    witness.see(merge.offer(life[1]))
    assert witness.told == []
    witness.see(merge.load(job_at(life, 1)))
    assert [type(item) for item in witness.told] == [Snapshot, Changed, Changed]
    assert bool(merge.needs_read), "the terminal change was told, the job not yet"
    witness.see(merge.load(job_at(life, 3)))
    assert merge.ended


def test_a_gap_asks_for_a_read_and_the_history_fills_it() -> None:
    life = changes([QUEUED, RUNNING, QUEUED, RUNNING, SUCCEEDED])
    merge, witness = RevisionMerge(), Witness(0)
    witness.see(merge.load(job_at(life, 1)))
    seen = [(merge.needs_read, witness.revision)]
    witness.see(merge.offer(life[3]))
    seen.append((merge.needs_read, witness.revision))
    witness.see(merge.load(job_at(life, 4)))
    seen.append((merge.needs_read, witness.revision))
    assert seen == [(False, 1), (True, 1), (False, 4)]


def test_a_watch_resumed_after_the_end_is_told_what_it_missed() -> None:
    life = changes([QUEUED, RUNNING, QUEUED, RUNNING, SUCCEEDED])
    merge, witness = RevisionMerge(2), Witness(2, revision=2)
    witness.see(merge.load(job_at(life, 5)))
    assert [type(item) for item in witness.told] == [Changed, Changed, Changed, Ended]


def test_a_resumed_watch_is_told_what_it_missed_then_how_the_job_stands() -> None:
    life = changes([QUEUED, RUNNING, QUEUED, RUNNING, SUCCEEDED])
    merge, witness = RevisionMerge(2), Witness(2, revision=2)
    witness.see(merge.load(job_at(life, 4)))
    assert [type(item) for item in witness.told] == [Changed, Changed, Snapshot]


def test_a_watch_of_an_ended_job_is_told_the_job_and_its_end() -> None:
    life = changes([QUEUED, RUNNING, DEAD])
    merge, witness = RevisionMerge(), Witness(0)
    witness.see(merge.load(job_at(life, 3)))
    assert [type(item) for item in witness.told] == [Snapshot, Ended]


def test_a_job_that_was_retried_before_its_end_was_read_goes_on() -> None:
    life = changes([QUEUED, RUNNING, DEAD, QUEUED, RUNNING, SUCCEEDED])
    merge, witness = RevisionMerge(), Witness(0)
    witness.see(merge.load(job_at(life, 2)))
    witness.see(merge.offer(life[2]))
    seen = [(merge.needs_read, merge.ended)]
    witness.see(merge.load(job_at(life, 4)))
    seen.append((merge.needs_read, merge.ended))
    witness.see(merge.load(job_at(life, 6)))
    seen.append((merge.needs_read, merge.ended))
    assert seen == [(True, False), (False, False), (False, True)]


def test_changes_that_are_no_longer_kept_are_named() -> None:
    life = changes([QUEUED, RUNNING] * 300 + [SUCCEEDED])
    merge, witness = RevisionMerge(10), Witness(10, revision=10)
    witness.see(merge.load(job_at(life, len(life))))
    assert witness.told[0] == Missing(11, 601 - 256)
    assert merge.ended


def test_a_revision_beyond_the_job_is_taken_for_its_last() -> None:
    life = changes([QUEUED, RUNNING, SUCCEEDED])
    merge = RevisionMerge(1000)
    told = merge.load(job_at(life, 2))
    assert [type(item) for item in told] == [Snapshot]
    assert merge.last == 2


def test_what_is_set_aside_is_bounded() -> None:
    merge = RevisionMerge()
    for revision in range(2, 10_000):
        assert merge.offer(StateChange(revision=revision)) == []
    assert len(merge._pending) == MAX_PENDING


def test_behind_sees_a_new_revision_and_an_end_not_told() -> None:
    life = changes([QUEUED, RUNNING, SUCCEEDED])
    merge = RevisionMerge()
    merge.load(job_at(life, 2))
    assert not merge.behind(Job(revision=2, state=RUNNING))
    assert not merge.behind(Job(revision=1, state=QUEUED))
    assert merge.behind(Job(revision=3, state=SUCCEEDED))
    merge.offer(life[2])
    assert merge.behind(Job(revision=3, state=SUCCEEDED))
    merge.load(job_at(life, 3))
    assert not merge.behind(Job(revision=3, state=SUCCEEDED))
