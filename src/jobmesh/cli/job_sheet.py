"""One job for people: everything that is known about it."""

from __future__ import annotations

from jobmesh.cli.output import pretty, print_sheet
from jobmesh.cli.view_plain import state_line
from jobmesh.cli.words import length, progress, took, when
from jobmesh.client import JobInfo, State


def print_job(job: JobInfo) -> None:
    """Print the job as lines of name and value."""
    spec = job.proto.spec
    print_sheet(
        [
            ("id", job.id),
            ("type", job.type),
            ("state", _state(job)),
            ("queue", f"{job.queue} (priority {job.priority})"),
            ("labels", " ".join(f"{name}={value}" for name, value in job.labels.items())),
            ("progress", progress(job.progress)),
            ("attempt", _attempts(job)),
            ("runner", job.runner_id),
            ("timeout", length(job.timeout) if job.timeout else ""),
            ("created", when(job.create_time)),
            ("next run", when(job.next_run_time)),
            ("started", when(job.start_time)),
            ("ended", when(job.end_time)),
            ("ran for", took(job)),
            ("arguments", pretty(job.payload) if spec.HasField("payload") else ""),
            ("checkpoint", pretty(job.checkpoint) if job.proto.HasField("checkpoint") else ""),
            ("result", pretty(job.result) if job.proto.HasField("result") else ""),
            ("error", job.error),
            ("traceback", job.error.traceback if job.error else ""),
            ("cancelled", job.cancel_reason),
            ("history", _history(job)),
        ]
    )


def _state(job: JobInfo) -> str:
    reason = job.hold_reason if job.state is State.QUEUED else job.reason
    return f"{job.state} ({reason})" if reason and str(reason) != str(job.state) else str(job.state)


def _attempts(job: JobInfo) -> str:
    if not job.attempt:
        return ""
    return f"{job.attempt} ({job.failures} failed, {job.crashes} lost with their runner)"


def _history(job: JobInfo) -> str:
    return "\n".join(f"{when(change.time)}  {state_line(change)}" for change in job.history)
