"""What runners report, made fit to be stored, and how much of it at once.

A runner of this version keeps to the contract by itself. One that does not, or that is not ours,
must not be able to spoil the transaction that its report shares with those of others: PostgreSQL
refuses NUL in texts, times out of its range, and the broker refuses messages that are too long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmesh.errors import PayloadTooLarge
from jobmesh.v1.job_pb2 import JobError
from jobmesh.v1.runner_service_pb2 import Failed, Report

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration

    from jobmesh.v1.job_pb2 import Payload, Progress

# Of a batch of reports of one kind, and of what waits for it: as a Batcher takes them.
BATCH = {"max_items": 512, "max_bytes": 8 << 20, "max_waiting": 100_000}
MOST_BYTES = 4 << 20  # of a result or a checkpoint: the most that a runner can be set to
MOST_RUN_SECONDS = 100 * 366 * 86_400.0
MOST_DELAY_SECONDS = 366 * 86_400
TYPE_CHARACTERS = 200
MESSAGE_CHARACTERS = 4000
TRACEBACK_BYTES = 64 << 10
PROGRESS_CHARACTERS = 1000
CONTENT_TYPE_CHARACTERS = 200
NOT_STORABLE = "NotStorable"


def make_storable(report: Report) -> None:
    """Bring a report within its limits; a result that is too large becomes a failure."""
    if not 0 <= report.run_seconds <= MOST_RUN_SECONDS:  # as is what is not a number
        report.run_seconds = MOST_RUN_SECONDS if report.run_seconds > 0 else 0.0
    kind = report.WhichOneof("outcome")
    if kind == "succeeded":
        _storable_result(report)
    elif kind == "failed":
        _storable_failure(report.failed)
    elif kind == "snoozed":
        _storable_delay(report.snoozed.delay)
    if report.HasField("progress"):
        storable_progress(report.progress)


def storable_payload(payload: Payload) -> None:
    """Make the content type of a payload fit; its size is the caller's to check."""
    payload.content_type = storable_text(payload.content_type, CONTENT_TYPE_CHARACTERS)


def storable_progress(progress: Progress) -> None:
    """Make a progress fit."""
    progress.message = storable_text(progress.message, PROGRESS_CHARACTERS)


def storable_text(text: str, most_characters: int) -> str:
    """The beginning of a text, without NUL."""
    text = text[:most_characters]
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in text else text


def not_storable(report: Report, error: BaseException) -> Report:
    """What to record in place of a report that the database refuses all the same."""
    return _failure(report, NOT_STORABLE, f"the report cannot be stored: {type(error).__name__}")


def _storable_result(report: Report) -> None:
    result = report.succeeded.result
    if len(result.data) > MOST_BYTES:
        error = PayloadTooLarge("result", len(result.data), MOST_BYTES)
        report.CopyFrom(_failure(report, type(error).__name__, str(error)))
    else:
        storable_payload(result)


def _storable_failure(failed: Failed) -> None:
    error = failed.error
    error.type = storable_text(error.type, TYPE_CHARACTERS)
    error.message = storable_text(error.message, MESSAGE_CHARACTERS)
    traceback = storable_text(error.traceback, TRACEBACK_BYTES)
    error.traceback = traceback.encode()[:TRACEBACK_BYTES].decode(errors="ignore")
    if failed.HasField("retry_after"):
        _storable_delay(failed.retry_after)


def _storable_delay(delay: Duration) -> None:
    seconds, nanos = delay.seconds, delay.nanos
    if 0 <= seconds < MOST_DELAY_SECONDS and 0 <= nanos < 1_000_000_000:
        return
    delay.seconds = max(0, min(seconds, MOST_DELAY_SECONDS))
    delay.nanos = 0


def _failure(report: Report, kind: str, message: str) -> Report:
    return Report(
        job_id=report.job_id,
        attempt=report.attempt,
        run_seconds=report.run_seconds,
        failed=Failed(error=JobError(type=kind, message=message, retryable=False)),
    )
