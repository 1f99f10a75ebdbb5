"""Cuts any number of submissions into batches that fit one call each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

S = TypeVar("S", bound="Sized")

# What a batch has around each of its requests: tag and length, up to 5 bytes; and its own option.
ENVELOPE_BYTES = 8


class Sized(Protocol):
    """Anything that knows its size on the wire."""

    @property
    def size(self) -> int:
        """Bytes."""


def chunks(items: Iterable[S], most_items: int, most_bytes: int) -> Iterator[Sequence[S]]:
    """The items in order, in runs within both limits; one that is too large goes alone.

    ``most_bytes`` is what a call of the whole run may have on the wire.
    """
    run: list[S] = []
    total = 0
    for item in items:
        size = item.size + ENVELOPE_BYTES
        if run and (len(run) == most_items or total + size > most_bytes):
            yield run
            run, total = [], 0
        run.append(item)
        total += size
    if run:
        yield run
