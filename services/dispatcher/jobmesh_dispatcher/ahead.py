"""Wake-ups whose jobs were claimed before the broker delivered them.

A dispatcher that stores jobs while its runners have room claims them at once. Their wake-up is
published all the same, and once delivered here there is nothing left to claim for it: it is told by
its number in the stream, which the acknowledgement of its publish had.

Forgetting is harmless: a claim of jobs that run takes nothing. Remembering is not: a stream that is
made anew counts from one. So all is dropped after `KEPT_SECONDS`, and at a reconnect.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable

KEPT_SECONDS = 2.0
MOST = 10_000


class Ahead:
    """Matches rows of the outbox, whose jobs are claimed, with messages of the stream."""

    def __init__(self) -> None:
        self._claimed = _Recent()
        self._numbers = _Recent()
        self._spent = _Recent()

    async def forget(self) -> None:
        """The stream may be another one."""
        for known in (self._claimed, self._numbers, self._spent):
            known.clear()

    def claimed(self, outbox_ids: Iterable[int]) -> None:
        """All jobs of these rows have been claimed here."""
        for outbox_id in outbox_ids:
            seq = self._numbers.take(outbox_id)
            if seq is None:
                self._claimed.put(outbox_id, 0)
            else:
                self._spent.put(seq, 0)

    def stored(self, outbox_id: int, seq: int) -> None:
        """The broker has stored the row as the message of this number."""
        if self._claimed.take(outbox_id) is None:
            self._numbers.put(outbox_id, seq)
        else:
            self._spent.put(seq, 0)

    def is_spent(self, seq: int) -> bool:
        """Whether there is nothing left to claim for the message; asked once for each."""
        return self._spent.take(seq) is not None


class _Recent:
    """A bounded map of numbers that forgets the oldest, and what is too old."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, tuple[float, int]] = OrderedDict()

    def clear(self) -> None:
        self._entries.clear()

    def put(self, key: int, value: int) -> None:
        self._entries[key] = (time.monotonic(), value)
        if len(self._entries) > MOST:
            self._entries.popitem(last=False)

    def take(self, key: int) -> int | None:
        since, value = self._entries.pop(key, (-KEPT_SECONDS, None))
        return value if time.monotonic() - since < KEPT_SECONDS else None
