"""The file of ``jobmesh schedules apply``: YAML, read as plain values only."""

from __future__ import annotations

from reprlib import repr as shown
from typing import Any, NamedTuple, TextIO

import click

from jobmesh.client.schedule_message import schedule_message
from jobmesh.durations import InvalidDuration
from jobmesh.errors import JobmeshError
from jobmesh.v1.schedule_pb2 import Schedule

TOP = {"owner", "schedules"}


class ScheduleFile(NamedTuple):
    """What a file says: the schedules, and whose they are."""

    owner: str
    schedules: list[Schedule]


def read_file(file: TextIO) -> ScheduleFile:
    """The schedules of a file.

    Raises:
        click.UsageError: it makes no sense; the message names the place.
    """
    content = _parsed(file)
    if not isinstance(content, dict) or set(content) - TOP:
        raise click.UsageError(f"{file.name}: has {' and '.join(sorted(TOP))} at the top, no more")
    owner, named = content.get("owner"), content.get("schedules") or {}
    if not isinstance(owner, str) or not owner:
        raise click.UsageError(f"{file.name}: owner is required, a name for these schedules")
    if not isinstance(named, dict):
        raise click.UsageError(f"{file.name}: schedules is a map from ids to settings")
    return ScheduleFile(
        owner, [_schedule(file.name, owner, str(key), value) for key, value in named.items()]
    )


def _parsed(file: TextIO) -> Any:
    import yaml

    try:
        return yaml.safe_load(file)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise click.UsageError(f"{file.name}: {error}") from None


def _schedule(file: str, owner: str, schedule_id: str, settings: Any) -> Schedule:
    where = f"{file}: schedules.{schedule_id}"
    if not isinstance(settings, dict) or not isinstance(settings.get("type"), str):
        raise click.UsageError(f"{where}: has settings, with the type of its jobs among them")
    given: dict[str, Any] = {str(name): value for name, value in settings.items()}
    type_name, arguments = given.pop("type"), _arguments(where, given.pop("arguments", None))
    if "owner" in given:
        raise click.UsageError(f"{where}: the owner is that of the file")
    if (retry := given.get("retry")) is not None:
        given["retry"] = _retry(f"{where}.retry", retry)
    try:
        return schedule_message(schedule_id, type_name, arguments, owner=owner, **given)
    except (TypeError, ValueError, InvalidDuration, JobmeshError) as error:
        raise click.UsageError(f"{where}: {error}") from None


def _arguments(where: str, given: Any) -> dict[Any, Any]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise click.UsageError(
            f"{where}: arguments: must be values by name, as in {{rows: 500}}, not {shown(given)}"
        )
    return given


def _retry(where: str, settings: Any) -> Any:
    from jobmesh.retry import Retry

    if not isinstance(settings, dict):
        raise click.UsageError(
            f"{where}: must be settings, as in {{max_attempts: 3}}, not {shown(settings)}"
        )
    given = {name: value for name, value in settings.items() if value is not None}
    types = given.get("non_retryable_error_types", [])
    if not isinstance(types, list) or not all(isinstance(name, str) for name in types):
        raise click.UsageError(
            f"{where}.non_retryable_error_types: must be a list of names, not {shown(types)}"
        )
    try:
        return Retry(**given)
    except Exception as error:
        raise click.UsageError(f"{where}: {error}") from None
