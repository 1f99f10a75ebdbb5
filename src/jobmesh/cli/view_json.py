"""A watch as JSON lines: one event a line, its kind under ``event``."""

from __future__ import annotations

import dataclasses
import sys
from datetime import UTC, datetime
from typing import Any, Self

from jobmesh.cli.json_form import json_form
from jobmesh.cli.output import print_json
from jobmesh.client import (
    ChangesLost,
    CheckpointStored,
    Ended,
    Event,
    Logged,
    ProgressMade,
    Snapshot,
    StateChanged,
)

_KINDS: dict[type, str] = {
    Snapshot: "snapshot",
    StateChanged: "state_changed",
    ProgressMade: "progress",
    Logged: "log",
    CheckpointStored: "checkpoint",
    ChangesLost: "changes_lost",
    Ended: "ended",
}


class JsonView:
    """Prints each event at once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to give back."""

    def note(self, text: str) -> None:
        """For people only: a program reads the job."""

    def show(self, event: Event) -> None:
        """Print the event."""
        print_json({"event": _KINDS[type(event)], **_content(event)})
        sys.stdout.flush()


def _content(event: Event) -> dict[str, Any]:
    match event:
        case Snapshot(job) | Ended(job):
            return {"job": json_form(job.proto)}
        case StateChanged(change):
            return plain(change)
        case ProgressMade(progress):
            return plain(progress)
        case Logged(line):
            return plain(line)
        case _:
            return plain(event)


def plain(value: Any) -> dict[str, Any]:
    """A dataclass as JSON values; times as in ISO 8601, what is not there left out."""
    form = dataclasses.asdict(value)
    return {
        name: _stamp(item) if isinstance(item, datetime) else item
        for name, item in form.items()
        if item is not None and item != ""
    }


def _stamp(time: datetime) -> str:
    """As protobuf writes times, so that all JSON of ours agrees."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
