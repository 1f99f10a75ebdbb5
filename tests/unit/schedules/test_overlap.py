"""What firings do while others run, played through."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobmesh.schedules.overlap import MOST_BUFFERED, Decision, Overlap, decide

counts = st.integers(0, 2000)


class Played:
    """Jobs that are active and firings that wait, as decisions leave them."""

    def __init__(self, policy: Overlap) -> None:
        self.policy, self.active, self.buffered = policy, 0, 0
        self.most_active = 0
        self.submitted = self.skipped = self.replaced = 0

    def fire(self) -> None:
        match decide(self.policy, self.active, self.buffered):
            case Decision.SUBMIT:
                self._submit()
            case Decision.BUFFER:
                self.buffered += 1
            case Decision.SKIP:
                self.skipped += 1
            case Decision.CANCEL:
                self.replaced += self.buffered
                self.buffered = 1
            case Decision.TERMINATE:
                self.replaced += self.buffered
                self.active = self.buffered = 0
                self._submit()

    def end(self) -> None:
        self.active = max(0, self.active - 1)
        if not self.active and self.buffered:
            self.buffered -= 1
            self._submit()

    def _submit(self) -> None:
        self.submitted += 1
        self.active += 1
        self.most_active = max(self.most_active, self.active)


@given(st.sampled_from(Overlap), st.lists(st.booleans(), max_size=100))
def test_no_firing_is_forgotten_and_only_allow_overlaps(policy: Overlap, steps: list[bool]) -> None:
    played = Played(policy)
    for fires in steps:
        played.fire() if fires else played.end()
    assert sum(steps) == played.submitted + played.skipped + played.replaced + played.buffered
    if policy is not Overlap.ALLOW:
        assert played.most_active <= 1
    if policy in (Overlap.ALLOW, Overlap.BUFFER_ALL, Overlap.CANCEL_RUNNING):
        assert played.skipped == 0
    if policy in (Overlap.BUFFER_ONE, Overlap.CANCEL_RUNNING):
        assert played.buffered <= 1
    if policy in (Overlap.SKIP, Overlap.ALLOW, Overlap.TERMINATE_RUNNING):
        assert played.buffered == 0


@given(st.sampled_from(Overlap), counts, counts)
def test_a_decision_depends_on_whether_there_are_others(
    policy: Overlap, active: int, buffered: int
) -> None:
    decision = decide(policy, active, buffered)
    if not active and not buffered:
        assert decision is Decision.SUBMIT
    if policy is Overlap.BUFFER_ALL and buffered >= MOST_BUFFERED:
        assert decision is Decision.SKIP
