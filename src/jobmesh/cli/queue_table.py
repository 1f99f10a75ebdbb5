"""Queues for people."""

from __future__ import annotations

from collections.abc import Sequence

import click

from jobmesh.cli.connection import wants_json
from jobmesh.cli.json_form import json_form
from jobmesh.cli.output import Column, print_rows, print_sheet
from jobmesh.cli.words import age, length
from jobmesh.client import QueueInfo


def paused(queue: QueueInfo) -> str:
    """What of the queue is paused, and why."""
    what = [
        name
        for name, is_paused in (
            ("dispatch", queue.dispatch_paused),
            ("intake", queue.intake_paused),
        )
        if is_paused
    ]
    note = f" ({queue.pause_note})" if what and queue.pause_note else ""
    return ", ".join(what) + note


COLUMNS: list[Column[QueueInfo]] = [
    Column("QUEUE", lambda queue: queue.name),
    Column("QUEUED", lambda queue: queue.depth["queued"]),
    Column("HELD", lambda queue: queue.depth["held"]),
    Column("RUNNING", lambda queue: queue.depth["running"]),
    Column("RETRYING", lambda queue: queue.depth["retrying"]),
    Column("SCHEDULED", lambda queue: queue.depth["scheduled"]),
    Column("OLDEST", lambda queue: age(queue.oldest_queued_time)),
    Column("MAX RUNNING", lambda queue: queue.max_running or ""),
    Column("PAUSED", paused),
]


def print_queues(queues: Sequence[QueueInfo]) -> None:
    """Print the queues, or that there are none."""
    if queues or wants_json():
        print_rows(queues, COLUMNS, lambda queue: json_form(queue.proto))
    else:
        click.echo("no queues yet; one comes into being with its first job", err=True)


def print_queue(queue: QueueInfo) -> None:
    """Print one queue as lines of name and value."""
    retry = queue.proto.default_retry_policy
    print_sheet(
        [
            ("queue", queue.name),
            ("paused", paused(queue) or "no"),
            *((name, count) for name, count in queue.depth.items()),
            ("oldest queued", age(queue.oldest_queued_time)),
            ("max running", queue.max_running or "no limit"),
            ("max depth", queue.max_depth or "no limit"),
            ("default timeout", length(queue.default_timeout) if queue.default_timeout else "none"),
            ("default attempts", retry.max_attempts if retry.HasField("max_attempts") else ""),
            ("etag", queue.etag),
        ]
    )
