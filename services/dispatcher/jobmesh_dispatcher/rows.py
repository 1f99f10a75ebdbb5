"""From rows of the database to the messages of the contract.

The rows are those of `read_jobs.sql` and `list_jobs_*.sql`; names of states and reasons are stored
without the prefix that the enums have. Lists run through here a thousand jobs at a time, hence
timestamps made by hand (`FromDatetime` takes twice as long).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.v1.job_pb2 import (
    Attempt,
    AttemptOutcome,
    HoldReason,
    Job,
    JobError,
    JobReason,
    JobState,
    LogLine,
    StateChange,
)

if TYPE_CHECKING:
    from asyncpg import Record

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _numbers(names: Iterable[tuple[str, Any]], prefix: str) -> dict[str | None, Any]:
    return {None: 0} | {name.removeprefix(prefix): number for name, number in names}


STATES = _numbers(JobState.items(), "JOB_STATE_")
REASONS = _numbers(JobReason.items(), "JOB_REASON_")
HOLD_REASONS = _numbers(HoldReason.items(), "HOLD_REASON_")
OUTCOMES = _numbers(AttemptOutcome.items(), "ATTEMPT_OUTCOME_")

_LEASED = frozenset({"RUNNING", "CANCELLING"})
_WAITING = frozenset({"SCHEDULED", "RETRYING"})


def timestamp(time: datetime | None) -> Timestamp | None:
    """The time as a message; none for none."""
    if time is None:
        return None
    since = time - _EPOCH
    return Timestamp(seconds=since.days * 86400 + since.seconds, nanos=since.microseconds * 1000)


def basic_job(row: Record) -> Job:
    """The job without payload, checkpoint, result, traceback and history."""
    job = _common(row)
    if row["error"] is not None:
        job.error.ClearField("traceback")
    return job


def full_job(row: Record) -> Job:
    """The whole job; contents of payload, checkpoint and result as `data`."""
    job = _common(row)
    job.spec.payload.data = row["payload"]
    job.spec.payload.content_type = row["payload_type"]
    if row["checkpoint"] is not None:
        job.checkpoint.data = row["checkpoint"]
        job.checkpoint.content_type = row["checkpoint_type"] or ""
    if row["result"] is not None:
        job.result.data = row["result"]
        job.result.content_type = row["result_type"] or ""
    job.history.extend(state_changes(row["history"]))
    return job


def _common(row: Record) -> Job:
    state = row["state"]
    job = Job(
        job_id=str(row["job_id"]),
        namespace=row["namespace"],
        state=STATES[state],
        reason=REASONS[row["reason"]],
        hold_reason=HOLD_REASONS[row["hold_reason"]],
        revision=row["revision"],
        attempt=row["attempt"],
        failures=row["failures"],
        crashes=row["crashes"],
        runner_id=row["runner_id"],
        schedule_id=row["schedule_id"],
        create_time=timestamp(row["create_time"]),
        start_time=timestamp(row["start_time"]),
        end_time=timestamp(row["end_time"]),
        next_run_time=timestamp(row["run_at"]) if state in _WAITING else None,
        cancel_reason=row["cancel_reason"],
    )
    job.spec.MergeFromString(row["spec"])
    if (progress := row["progress"]) is not None:
        job.progress.MergeFromString(progress)
    if (error := row["error"]) is not None:
        job.error.MergeFromString(error)
    return job


def state_changes(history: Iterable[Record]) -> list[StateChange]:
    """The array of `state_change`, oldest first."""
    return [
        StateChange(
            revision=revision,
            state=STATES[state],
            reason=REASONS[reason],
            time=timestamp(time),
            attempt=attempt,
        )
        for revision, state, reason, time, attempt in history
    ]


def attempts(row: Record) -> list[Attempt]:
    """The attempts that ended, oldest first, and the one that runs.

    The row is one of `read_attempts.sql`.
    """
    found = [_ended_attempt(*ended) for ended in row["attempts"]]
    if row["state"] in _LEASED:
        found.append(
            Attempt(
                attempt=row["attempt"],
                runner_id=row["runner_id"],
                start_time=timestamp(row["start_time"]),
            )
        )
    return found


def _ended_attempt(
    attempt: int,
    runner_id: str | None,
    start_time: datetime | None,
    end_time: datetime | None,
    outcome: str | None,
    error_type: str | None,
    error_message: str | None,
    retryable: bool | None,
) -> Attempt:
    error = None
    if error_type or error_message:
        error = JobError(
            type=error_type or "", message=error_message or "", retryable=bool(retryable)
        )
    return Attempt(
        attempt=attempt,
        runner_id=runner_id or "",
        start_time=timestamp(start_time),
        end_time=timestamp(end_time),
        outcome=OUTCOMES[outcome],
        error=error,
    )


def log_line(row: Record) -> LogLine:
    """A row of `job_logs`."""
    return LogLine(
        sequence=row["sequence"],
        attempt=row["attempt"],
        time=timestamp(row["time"]),
        level=row["level"],
        message=row["message"],
    )
