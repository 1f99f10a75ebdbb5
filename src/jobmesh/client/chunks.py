"""Cuts any number of submissions into batches that fit one call each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

S = TypeVar("S", bound="Sized")


class Sized(Protocol):
    """Anything that knows its size on the wire."""

    @property
    def size(self) -> int:
        """Bytes."""


def chunks(items: Iterable[S], most_items: int, most_bytes: int) -> Iterator[Sequence[S]]:
    """The items in order, in runs within both limits; one that is too large goes alone."""
    run: list[S] = []
    total = 0
    for item in items:
        if run and (len(run) == most_items or total + item.size > most_bytes):
            yield run
            run, total = [], 0
        run.append(item)
        total += item.size
    if run:
        yield run
