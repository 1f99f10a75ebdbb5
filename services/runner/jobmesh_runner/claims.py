"""The claims that the runner holds: what a `hello` names. Of the mesh thread alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from jobmesh.v1.runner_service_pb2 import Lease
from jobmesh_runner.attempt import Attempt, LeaseKey


class Claims:
    """Attempts by lease, from their assignment until their report was answered or they are lost.

    :ivar waiting: those that no handler has begun, in the order to start them. The main thread
        takes from its left; a deque's operations are atomic, so that each is taken once.
    """

    def __init__(self) -> None:
        self.waiting: deque[Attempt] = deque()
        self._held: dict[LeaseKey, Attempt] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, attempt: Attempt) -> bool:
        return self._held.get(attempt.key) is attempt

    def get(self, key: LeaseKey) -> Attempt | None:
        """The attempt with this lease, if it is held."""
        return self._held.get(key)

    def all(self) -> list[Attempt]:
        """Every attempt held, oldest first."""
        return list(self._held.values())

    def unreported(self) -> list[Attempt]:
        """Those that have not ended yet."""
        return [attempt for attempt in self._held.values() if attempt.report is None]

    def leases(self) -> list[Lease]:
        """As `hello` tells them."""
        return [attempt.lease for attempt in self._held.values()]

    def oldest_waiting(self) -> Attempt | None:
        """The one that is to begin next."""
        try:
            return self.waiting[0]
        except IndexError:
            return None

    def add(self, attempt: Attempt) -> bool:
        """Hold a new claim; False if it is held already, as it was sent on an earlier stream."""
        return self._held.setdefault(attempt.key, attempt) is attempt

    def drop(self, attempt: Attempt) -> None:
        """Hold it no longer."""
        if attempt in self:
            del self._held[attempt.key]

    def withdraw(self, attempt: Attempt) -> bool:
        """Take a claim out of the queue; False if its handler has begun, or is about to."""
        try:
            self.waiting.remove(attempt)
        except ValueError:
            return False
        return True

    def withdraw_all(self) -> Iterable[Attempt]:
        """Take all out of the queue, newest first, while the main thread may take from it too."""
        while True:
            try:
                yield self.waiting.pop()
            except IndexError:
                return
