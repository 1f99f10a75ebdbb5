"""A schedule as Python's own values say it, as a message of the contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jobmesh.client.options import SubmitOptions
from jobmesh.client.submission import prepare
from jobmesh.client.times import to_timestamp
from jobmesh.durations import DurationLike, nanoseconds
from jobmesh.v1.schedule_pb2 import CatchupPolicy, OverlapPolicy, Schedule, ScheduleSpec

if TYPE_CHECKING:
    from jobmesh.task import Task

# Of SubmitOptions, those that make sense again and again.
JOB_SETTINGS = (
    *("queue", "priority", "timeout", "heartbeat_timeout", "expires_after", "retry"),
    *("labels", "parent_job_id"),
)
Spec = str | Mapping[str, Any]


def schedule_message(
    schedule_id: str,
    task: Task[..., Any] | str,
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
        TypeError: a setting is unknown. ValueError: one is malformed.
    """
    job = {name: settings.pop(name) for name in JOB_SETTINGS if name in settings}
    schedule = Schedule(schedule_id=schedule_id)
    schedule.job.CopyFrom(prepare(task, arguments or {}, SubmitOptions(**job)).request.job)
    for expression in [cron] if isinstance(cron, str) else cron:
        schedule.include.add(cron=expression)
    if every is not None:
        schedule.include.append(_spec({"every": every}))
    schedule.include.extend(map(_spec, include))
    schedule.exclude.extend(map(_spec, exclude))
    for name, value in settings.items():
        if (setter := _SETTERS.get(name)) is None:
            known = ", ".join([*_SETTERS, *JOB_SETTINGS])
            raise TypeError(f"a schedule has no setting {name!r}; there are {known}")
        if value is not None:
            setter(schedule, name, value)
    return schedule


def _spec(spec: Spec) -> ScheduleSpec:
    if isinstance(spec, str):
        return ScheduleSpec(cron=spec)
    given = dict(spec)
    made = ScheduleSpec()
    if "cron" in given:
        made.cron = given.pop("cron")
    elif "at" in given:
        made.at.CopyFrom(to_timestamp(_time(given.pop("at"))))
    elif "every" in given:
        made.interval.every.FromNanoseconds(nanoseconds(given.pop("every"), "every"))
        if "anchor" in given:
            made.interval.anchor.CopyFrom(to_timestamp(_time(given.pop("anchor"))))
    else:
        raise ValueError(f"a spec is one of cron, every and at, not {sorted(given)}")
    if given:
        raise ValueError(f"a spec has no {', '.join(map(str, given))} beside that")
    return made


def _time(value: datetime | str) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def _plain(schedule: Schedule, name: str, value: Any) -> None:
    setattr(schedule, name, value)


def _length(schedule: Schedule, name: str, value: DurationLike) -> None:
    getattr(schedule, name).FromNanoseconds(nanoseconds(value, name))


def _moment(schedule: Schedule, name: str, value: datetime | str) -> None:
    getattr(schedule, name).CopyFrom(to_timestamp(_time(value)))


def _overlap(schedule: Schedule, name: str, value: str) -> None:
    schedule.overlap_policy = OverlapPolicy.Value(f"OVERLAP_POLICY_{value.upper()}")


def _catchup(schedule: Schedule, name: str, value: str) -> None:
    schedule.catchup_policy = CatchupPolicy.Value(f"CATCHUP_POLICY_{value.upper()}")


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
