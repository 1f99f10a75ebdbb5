"""The mistakes found in one request."""

from __future__ import annotations

from jobmesh.errors import InvalidField, InvalidFields, JobmeshError, PayloadTooLarge

MOST = 10


class Violations:
    """Collects up to ten mistakes; what lies beyond is not reported."""

    __slots__ = ("_found", "_too_large")

    def __init__(self) -> None:
        self._found: list[tuple[str, str]] = []
        self._too_large: PayloadTooLarge | None = None

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def full(self) -> bool:
        """Nothing more will be reported: checking may end."""
        return len(self._found) >= MOST

    def add(self, field: str, why: str) -> None:
        """The field of that path is wrong."""
        if len(self._found) < MOST:
            self._found.append((field, why))

    def take(self, error: InvalidField | PayloadTooLarge) -> None:
        """An error that a check raised counts as what it reports."""
        if isinstance(error, PayloadTooLarge):
            self._too_large = error
        for field, why in error.violations:
            self.add(field, why)

    def error(self) -> JobmeshError | None:
        """The one error for all of them.

        PayloadTooLarge only where that is all: the reason of an error stands for its fields.
        """
        if not self._found:
            return None
        if len(self._found) == 1 and self._too_large is not None:
            return self._too_large
        return InvalidFields(self._found)

    def raise_any(self) -> None:
        """Raise the error, if there is one."""
        if error := self.error():
            raise error
