"""Schedules and their firings for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from jobmesh.cli.connection import wants_json
from jobmesh.cli.json_form import json_form
from jobmesh.cli.output import Column, print_json, print_rows, print_sheet
from jobmesh.cli.words import age, length, when
from jobmesh.client.schedules import FiringInfo, Planned, ScheduleInfo, spec_text
from jobmesh.client.states import short_name
from jobmesh.v1.schedule_pb2 import CatchupPolicy, OverlapPolicy


def paused(schedule: ScheduleInfo) -> str:
    """Whether it is paused, and why."""
    if not schedule.paused:
        return ""
    return f"yes ({schedule.pause_note})" if schedule.pause_note else "yes"


COLUMNS: list[Column[ScheduleInfo]] = [
    Column("SCHEDULE", lambda s: s.schedule_id),
    Column("FIRES", lambda s: ", ".join(s.specs)),
    Column("ZONE", lambda s: s.time_zone),
    Column("TYPE", lambda s: s.type),
    Column("NEXT", lambda s: age(s.next_fire_time)),
    Column("OWNER", lambda s: s.owner),
    Column("PAUSED", paused),
]
FIRING_COLUMNS: list[Column[FiringInfo]] = [
    Column("TIME", lambda f: when(f.fire_time)),
    Column("KIND", lambda f: f.kind),
    Column("OUTCOME", lambda f: f.outcome),
    Column("JOB", lambda f: f.job_id),
    Column("DETAIL", lambda f: f"{f.count} times: {f.detail}" if f.count > 1 else f.detail),
]
PLAN_COLUMNS: list[Column[Planned]] = [
    Column("LOCAL TIME", lambda p: p.local_time),
    Column("UTC", lambda p: p.fire_time.strftime("%Y-%m-%d %H:%M:%S")),
    Column("DUE", lambda p: p.due_time.strftime("%H:%M:%S.%f")[:-3]),
]


def print_schedules(schedules: Sequence[ScheduleInfo]) -> None:
    """Print the schedules, or that there are none."""
    if schedules or wants_json():
        print_rows(schedules, COLUMNS, lambda schedule: json_form(schedule.proto))
    else:
        click.echo("no schedules", err=True)


def print_schedule(schedule: ScheduleInfo) -> None:
    """Print one schedule, as lines of name and value or as JSON."""
    if wants_json():
        print_json(json_form(schedule.proto))
        return
    proto = schedule.proto
    print_sheet(
        [
            ("schedule", schedule.schedule_id),
            ("description", proto.description),
            ("fires", "\n".join(schedule.specs)),
            ("but not", "\n".join(map(spec_text, proto.exclude))),
            ("time zone", schedule.time_zone),
            ("next", when(schedule.next_fire_time)),
            ("paused", paused(schedule) or "no"),
            ("type", schedule.type),
            ("queue", proto.job.queue),
            ("overlap", short_name(OverlapPolicy.Name(proto.overlap_policy)) or "SKIP"),
            ("catch-up", short_name(CatchupPolicy.Name(proto.catchup_policy)) or "ONE"),
            ("jitter", length(proto.jitter.ToTimedelta()) if proto.HasField("jitter") else ""),
            ("owner", schedule.owner),
            ("etag", schedule.etag),
        ]
    )


def print_firings(firings: Iterable[FiringInfo]) -> None:
    """Print firings, one a line."""
    print_rows(firings, FIRING_COLUMNS, lambda firing: json_form(firing.proto))


def print_plan(planned: Sequence[Planned]) -> None:
    """Print the times to come."""
    print_rows(
        planned,
        PLAN_COLUMNS,
        lambda p: {
            "fire_time": p.fire_time.isoformat(),
            "local_time": p.local_time,
            "due_time": p.due_time.isoformat(),
        },
    )
