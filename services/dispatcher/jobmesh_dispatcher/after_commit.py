"""What is done once a decision has committed.

Publish what the outbox owes, tell watchers, nudge other dispatchers. None of it can fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobmesh_dispatcher.store.claim import Claimed
from jobmesh_dispatcher.store.outbox import OutboxMessage

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.events import Events
    from jobmesh_dispatcher.nudges import Nudges
    from jobmesh_dispatcher.publisher import Publisher


class AfterCommit:
    """The followers of a commit."""

    def __init__(self, publisher: Publisher, events: Events, nudges: Nudges) -> None:
        self._publisher = publisher
        self.events = events
        self.nudges = nudges

    def submitted(self, messages: Sequence[OutboxMessage]) -> None:
        """Jobs were stored."""
        if messages:
            self._publisher.offer(messages)

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
