"""How many messages to ask for from where: one credit over all queues and priorities.

A source where messages are known to wait gets a sized pull that answers at once; an idle one gets a
waiting pull for one message. Sized pulls never ask for more than runners have room for, all sources
together. Scarce room is shared by weight, (priority + 1) squared, and what a source was denied is
remembered (deficit round robin; Shreedhar and Varghese, 1995): priority 9 gets a hundred times what
priority 0 gets, and priority 0 still moves, even where there is room for one job only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True)
class Source:
    """A place to pull from.

    `backlog` messages are known to wait; `asked` tells whether a request is under way; `credit` is
    what it was denied.
    """

    priority: int
    backlog: int = 0
    asked: bool = False
    credit: float = 0.0

    @property
    def weight(self) -> int:
        """Its share where room is scarce."""
        return (self.priority + 1) ** 2


class Pull(NamedTuple):
    """Ask source number `source` for `batch` messages.

    `wait` until one comes, or answer at once.
    """

    source: int
    batch: int
    wait: bool


def plan(room: int, sources: Sequence[Source]) -> list[Pull]:
    """What to ask for with room for so many messages; keeps the sources' credits."""
    if room <= 0:
        return []
    pulls = _sized(room, [(n, s) for n, s in enumerate(sources) if not s.asked and s.backlog > 0])
    pulls += [Pull(n, 1, True) for n, s in enumerate(sources) if not s.asked and s.backlog <= 0]
    return pulls


def _sized(room: int, busy: Sequence[tuple[int, Source]]) -> list[Pull]:
    total = sum(source.weight for _, source in busy)
    for _, source in busy:
        source.credit += room * source.weight / total
    batches = _deal(room, busy)
    for n, source in busy:
        # Bounded: a source that could not use its share must not hoard it for later.
        source.credit = max(-float(room), min(float(room), source.credit - batches[n]))
    return [Pull(n, batch, False) for n, batch in batches.items() if batch]


def _deal(room: int, busy: Sequence[tuple[int, Source]]) -> dict[int, int]:
    """Whole shares by credit, the largest first; then what is left to whoever has a use for it."""
    by_credit = sorted(busy, key=lambda pair: -pair[1].credit)
    batches: dict[int, int] = {}
    for n, source in by_credit:
        batches[n] = min(room, source.backlog, max(0, int(source.credit)))
        room -= batches[n]
    for n, source in by_credit:
        more = min(room, source.backlog - batches[n])
        batches[n] += more
        room -= more
    return batches
