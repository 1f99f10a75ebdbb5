"""What is done once a decision has committed.

Publish what the outbox owes, tell watchers, nudge other dispatchers. None of it can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from jobmesh_dispatcher.store.claim import Claimed
from jobmesh_dispatcher.store.outbox import OutboxMessage

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.events import Events
    from jobmesh_dispatcher.nudges import Nudges
    from jobmesh_dispatcher.publisher import Publisher


class AfterCommit:
    """The followers of a commit.

    `straight` is offered the wake-ups of jobs that were just stored, and tells whether it sees to
    them: what it cannot deliver comes back by `settled`.
    """

    def __init__(self, publisher: Publisher, events: Events, nudges: Nudges) -> None:
        self._publisher = publisher
        self.events = events
        self.nudges = nudges
        self.straight: Callable[[Sequence[OutboxMessage]], bool] = lambda messages: False

    def submitted(self, messages: Sequence[OutboxMessage]) -> None:
        """Jobs were stored: those that runners here have room for need not wait for the broker."""
        if messages and not self.straight(messages):
            self._publisher.offer(messages)

    def settled(self, delivered: Sequence[OutboxMessage], left: Sequence[OutboxMessage]) -> None:
        """Of wake-ups that went straight, what has reached its runners, and what has not."""
        self._publisher.forget(message.id for message in delivered)
        if left:
            self._publisher.offer(left)

    def changed(self, rows: Sequence[Record], messages: Sequence[OutboxMessage]) -> None:
        """Jobs have changed their state."""
        if messages:
            self._publisher.offer(messages)
        self.events.states(rows)

    def claimed(self, claimed: Claimed) -> None:
        """Jobs were given to runners, or parked."""
        if claimed.messages:
            self._publisher.offer(claimed.messages)
        self.events.states(claimed.rows, "claim_time")
        self.events.states(claimed.expired)
        if claimed.held_types:
            self.nudges.held(claimed.held_types)
