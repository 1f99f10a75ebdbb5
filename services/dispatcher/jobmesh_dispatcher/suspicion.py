"""Whom to suspect, and whom to charge, when a runner is lost with jobs on board.

A job is suspected in steps: it runs in a process of its own the next time, and if a runner is lost
in spite of that, on a runner of its own. What clears it is that its handler's end is reported, or
that it has run for longer than before.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID


class Passenger(NamedTuple):
    """A job of a lost runner. `suspect` jobs ran in processes of their own."""

    job_id: UUID
    started: bool
    suspect: bool
    claim_time: datetime


class Blame(NamedTuple):
    """`suspected` are one step further; `charged` are those of them that a crash is charged to."""

    suspected: frozenset[UUID]
    charged: frozenset[UUID]


def blame(passengers: Sequence[Passenger], slots: int) -> Blame:
    """Who may have taken a runner down that ran so many handlers at once.

    * Those that had started. Of the others, as many of the first as there were slots left: a
      handler that ends its process at once does so before anybody hears that it began. They are not
      charged, for most of them have not begun.
    * Those in processes of their own are charged only if nobody else can have done it: innocent
      long jobs would be buried by the third machine that is lost, or by a neighbour. They are
      suspected all the same, since some ends of a process take the runner along (a container that
      is ended as a whole for its memory).
    """
    started = [p for p in passengers if p.started]
    waiting = sorted(
        (p for p in passengers if not p.started), key=lambda p: (p.claim_time, p.job_id)
    )
    suspected = [*started, *waiting[: max(0, slots - len(started))]]
    ordinary = [p for p in suspected if not p.suspect]
    culprits = ordinary or suspected
    return Blame(
        frozenset(p.job_id for p in suspected),
        frozenset(p.job_id for p in culprits if p.started),
    )
