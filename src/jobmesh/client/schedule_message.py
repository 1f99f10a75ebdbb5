"""A schedule as Python's own values say it, as a message of the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any

from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.client.options import SubmitOptions
from jobmesh.client.submission import prepare
from jobmesh.client.times import to_timestamp
from jobmesh.durations import DurationLike, nanoseconds
from jobmesh.retry import Retry
from jobmesh.v1.schedule_pb2 import CatchupPolicy, OverlapPolicy, Schedule, ScheduleSpec

if TYPE_CHECKING:
    from jobmesh.task import Task

# Of SubmitOptions, those that make sense again and again.
JOB_SETTINGS = (
    *("queue", "priority", "timeout", "heartbeat_timeout", "expires_after", "retry"),
    *("labels", "parent_job_id"),
)
Spec = str | Mapping[str, Any]

_TEXT = (str, "text in quotes")
# Of what a message of the contract would refuse without its name, or take for something else.
_KINDS: dict[str, tuple[type, str]] = {
    **dict.fromkeys(("queue", "parent_job_id", "time_zone", "description", "owner"), _TEXT),
    "priority": (int, "0 to 9"),
    "retry": (Retry, "a Retry, as in Retry(max_attempts=3)"),
    "labels": (Mapping, "texts by name, as in {team: a}"),
    "paused": (bool, "true or false"),
    "pause_after_failures": (int, "a whole number"),
}


def schedule_message(
    schedule_id: str,
    task: Task[..., Any] | str,
    /,
    arguments: Mapping[str, Any] | None = None,
    *,
    cron: str | Sequence[str] = (),
    every: DurationLike | None = None,
    include: Sequence[Spec] = (),
    exclude: Sequence[Spec] = (),
    **settings: Any,
) -> Schedule:
    """The message.

    Args:
        task: what is submitted, or its type's name.
        arguments: of each job.
        cron: one expression or several.
        every: fires again and again so long after the last time.
        include, exclude: more times, and times at which it does not fire: each a cron expression,
            or ``{"cron": …}``, ``{"every": …, "anchor": …}`` or ``{"at": …}``.
        settings: ``time_zone``, ``overlap`` (``allow``, ``skip``, ``buffer_one``, ``buffer_all``,
            ``cancel_running``, ``terminate_running``), ``catchup`` (``none``, ``one``, ``all``),
            ``catchup_window``, ``jitter``, ``start_time``, ``end_time``, ``paused``,
            ``pause_after_failures``, ``description``, ``owner``; and those of a job: ``queue``,
            ``priority``, ``timeout``, ``heartbeat_timeout``, ``expires_after``, ``retry``,
            ``labels``.

    Raises:
        TypeError: a setting is unknown. ValueError: one is malformed; the message names it.
    """
    settings = {name: value for name, value in settings.items() if value is not None}
    for name in settings.keys() & _KINDS.keys():
        _require(name, settings[name], *_KINDS[name])
    job = {name: settings.pop(name) for name in JOB_SETTINGS if name in settings}
    schedule = Schedule(schedule_id=schedule_id)
    schedule.job.CopyFrom(prepare(task, arguments or {}, _options(job)).request.job)
    schedule.include.extend(_crons(cron))
    if every is not None:
        schedule.include.append(_interval("every", every))
    schedule.include.extend(_specs("include", include))
    schedule.exclude.extend(_specs("exclude", exclude))
    for name, value in settings.items():
        if (setter := _SETTERS.get(name)) is None:
            known = ", ".join([*_SETTERS, *JOB_SETTINGS])
            raise TypeError(f"a schedule has no setting {name!r}; there are {known}")
        setter(schedule, name, value)
    return schedule


def _require(name: str, value: object, kind: type, what: str) -> None:
    # A bool is an int, and a number that was left out of quotes is no text.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _not(name, what, value)


def _not(name: str, what: str, value: object) -> ValueError:
    return ValueError(f"{name}: must be {what}, not {shown(value)}")


def _options(job: dict[str, Any]) -> SubmitOptions:
    labels = job.get("labels", {})
    if not all(isinstance(name, str) for name in labels):
        raise _not("labels", _KINDS["labels"][1], labels)
    for name, value in labels.items():
        _require(f"labels.{name}", value, *_TEXT)
    return SubmitOptions(**job)


def _crons(cron: str | Sequence[str]) -> list[ScheduleSpec]:
    found = [("cron", cron)] if isinstance(cron, str) else _items("cron", cron)
    return [_cron(name, expression) for name, expression in found]


def _specs(name: str, specs: Sequence[Spec]) -> list[ScheduleSpec]:
    return [_spec(place, spec) for place, spec in _items(name, specs)]


def _items(name: str, value: Any) -> list[tuple[str, Any]]:
    """What is listed, each with its place."""
    if value is None:
        return []
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise _not(name, "a list, as in ['0 2 * * *']", value)
    return [(f"{name}[{place}]", item) for place, item in enumerate(value)]


def _spec(name: str, spec: Any) -> ScheduleSpec:
    if isinstance(spec, str):
        return _cron(name, spec)
    given = dict(spec) if isinstance(spec, Mapping) else {}
    known = next((kind for kind in ("cron", "at", "every") if kind in given), None)
    if known is None:
        found = ", ".join(map(str, given)) or shown(spec)
        raise ValueError(f"{name}: is one of cron, every and at, not {found}")
    value = given.pop(known)
    anchor = given.pop("anchor", None) if known == "every" else None
    if given:
        raise ValueError(f"{name}: has no {', '.join(map(str, given))} beside {known}")
    if known == "cron":
        return _cron(f"{name}.cron", value)
    if known == "at":
        return ScheduleSpec(at=_time(f"{name}.at", value))
    return _interval(f"{name}.every", value, f"{name}.anchor", anchor)


def _cron(name: str, expression: Any) -> ScheduleSpec:
    _require(name, expression, *_TEXT)
    return ScheduleSpec(cron=expression)


def _interval(
    name: str, every: DurationLike, anchor_name: str = "", anchor: Any = None
) -> ScheduleSpec:
    made = ScheduleSpec()
    made.interval.every.FromNanoseconds(nanoseconds(every, name))
    if anchor is not None:
        made.interval.anchor.CopyFrom(_time(anchor_name, anchor))
    return made


def _time(name: str, value: Any) -> Timestamp:
    example = "write it as in 2026-11-30T10:00Z or 2026-11-30T10:00+01:00"
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        time = None
    if not isinstance(time, datetime):
        raise ValueError(f"{name}: {shown(value)} is no time; {example}")
    if time.tzinfo is None:
        raise ValueError(f"{name}: {time.isoformat()} has no time zone; {example}")
    try:
        return to_timestamp(time.astimezone(UTC), name)
    except OverflowError:
        raise ValueError(f"{name}: {time.isoformat()} is before year 1 or after 9999") from None


def _plain(schedule: Schedule, name: str, value: Any) -> None:
    try:
        setattr(schedule, name, value)
    except ValueError as error:  # too large a number, or half a character
        raise ValueError(f"{name}: {error}") from None


def _length(schedule: Schedule, name: str, value: DurationLike) -> None:
    getattr(schedule, name).FromNanoseconds(nanoseconds(value, name))


def _moment(schedule: Schedule, name: str, value: datetime | str) -> None:
    getattr(schedule, name).CopyFrom(_time(name, value))


def _overlap(schedule: Schedule, name: str, value: str) -> None:
    schedule.overlap_policy = OverlapPolicy.Value(_policy(OverlapPolicy, name, value))


def _catchup(schedule: Schedule, name: str, value: str) -> None:
    schedule.catchup_policy = CatchupPolicy.Value(_policy(CatchupPolicy, name, value))


def _policy(kind: Any, name: str, value: object) -> str:
    """The full name of a policy, of which its short one was given."""
    prefix: str = kind.keys()[0].removesuffix("UNSPECIFIED")
    *most, last = (key.removeprefix(prefix).lower() for key in kind.keys()[1:])
    if not isinstance(value, str) or value.lower() not in (*most, last):
        raise _not(name, f"{', '.join(most)} or {last}", value)
    return prefix + value.upper()


_SETTERS: dict[str, Callable[[Schedule, str, Any], None]] = {
    "time_zone": _plain,
    "overlap": _overlap,
    "catchup": _catchup,
    "catchup_window": _length,
    "jitter": _length,
    "start_time": _moment,
    "end_time": _moment,
    "paused": _plain,
    "pause_after_failures": _plain,
    "description": _plain,
    "owner": _plain,
}
