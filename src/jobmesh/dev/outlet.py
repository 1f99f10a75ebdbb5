"""Where text for a person goes: a terminal, a pipe, a file."""

from __future__ import annotations

import os


class Outlet:
    """Writes to a file descriptor, past Python's own buffers.

    Whoever writes may be held up for as long as nobody reads. Python's buffer would be locked
    meanwhile, and the end of the process waits for that lock; here only the writing thread waits.

    :param encoding: of the terminal; a character that it lacks is written as its number.
    """

    def __init__(self, descriptor: int, encoding: str) -> None:
        self._descriptor = descriptor
        self._encoding = encoding

    def write(self, text: str) -> None:
        """Write all of it.

        :raises BrokenPipeError: if nobody reads any more.
        :raises OSError: if it cannot be written now.
        """
        rest = memoryview(text.encode(self._encoding, "backslashreplace"))
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
