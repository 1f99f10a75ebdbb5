"""A schedule that a program declares for one of its tasks, with ``@app.schedule``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobmesh.task import Task


class InvalidSchedule(ValueError):
    """A declared schedule cannot be one."""


@dataclass(frozen=True, slots=True)
class DeclaredSchedule:
    """What was declared; ``settings`` are those of `mesh.schedules.create`."""

    schedule_id: str
    task: Task[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find mistakes where they are made, as far as that needs no mesh. InvalidSchedule."""
        from jobmesh.schedules.cron import BadCron, Cron
        from jobmesh.schedules.zones import UnknownZone, zone

        cron = self.settings.get("cron", ())
        try:
            for expression in [cron] if isinstance(cron, str) else cron:
                Cron(expression)
            zone(self.settings.get("time_zone", "UTC"))
        except BadCron as error:
            raise InvalidSchedule(f"schedule {self.schedule_id}: {error}") from error
        except UnknownZone as error:
            raise InvalidSchedule(
                f"schedule {self.schedule_id}: {str(error)!a} is no IANA time zone"
            ) from error
