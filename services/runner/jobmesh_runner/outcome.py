"""From how a handler ended to what is reported: pure decisions.

A handler that was told to stop ends in one of these ways:

| told because | returned | raised |
| --- | --- | --- |
| nothing | Succeeded | Failed, or Snoozed if it asks for it |
| CANCELLED | Succeeded | Cancelled, or Failed if it was another error |
| TIMED_OUT, DEADLINE, SILENT | Failed, timed out | Failed, timed out |
| INTERRUPTED | Succeeded | Interrupted, unless it is a snooze or permanent: the rest comes of it |
| LOST | nothing | nothing |
"""

from __future__ import annotations

import asyncio

from jobmesh import codec
from jobmesh.arguments import InvalidArguments
from jobmesh.codec import NotSerializable
from jobmesh.errors import PayloadTooLarge
from jobmesh.outcomes import JobCancelled, PermanentError, RetryLater, Snooze
from jobmesh.v1.job_pb2 import JobError, Payload
from jobmesh.v1.runner_service_pb2 import (
    Cancelled,
    Failed,
    Interrupted,
    Report,
    Snoozed,
    Succeeded,
)
from jobmesh_runner.attempt import LeaseKey, Stop, StopKind
from jobmesh_runner.job_error import MESSAGE_CHARACTERS, TRACEBACK_BYTES, job_error
from jobmesh_runner.wire_text import cut, head_and_tail

UNKNOWN_TYPE_DELAY_SECONDS = 10
_PERMANENT = (PermanentError, InvalidArguments)
_DELIBERATE = (Snooze, PermanentError)


def returned(
    key: LeaseKey, stop: Stop | None, result: object, seconds: float, limit_bytes: int
) -> Report | None:
    """What to report of a handler that returned."""
    if stop is not None and stop.kind is not StopKind.CANCELLED:
        if stop.kind is StopKind.LOST:
            return None
        if stop.kind.is_timeout:
            return _report(key, seconds, failed=_timed_out(stop))
    try:
        data = codec.encode_within(result, "result", limit_bytes)
    except (NotSerializable, PayloadTooLarge) as error:
        # Another attempt would end the same way.
        return _report(key, seconds, failed=Failed(error=job_error(error, retryable=False)))
    # By name and not through _report: the path of every job that goes well.
    return Report(
        job_id=key[0],
        attempt=key[1],
        run_seconds=seconds,
        succeeded=Succeeded(result=Payload(data=data, content_type=codec.CONTENT_TYPE)),
    )


def raised(key: LeaseKey, stop: Stop | None, error: BaseException, seconds: float) -> Report | None:
    """What to report of a handler that raised."""
    kind = stop.kind if stop is not None else None
    if kind is StopKind.LOST:
        return None
    if stop is not None and stop.kind.is_timeout:
        return _report(key, seconds, failed=_timed_out(stop, error))
    if kind is StopKind.INTERRUPTED and not isinstance(error, _DELIBERATE):
        return _report(key, seconds, interrupted=Interrupted())
    if kind is StopKind.CANCELLED and _is_a_stop(error):
        return _report(key, seconds, cancelled=Cancelled())
    if isinstance(error, Snooze):
        snoozed = Snoozed()
        snoozed.delay.FromNanoseconds(round(error.delay * 1e9))
        return _report(key, seconds, snoozed=snoozed)
    return _report(key, seconds, failed=_failed(error))


def abandoned(key: LeaseKey, stop: Stop, seconds: float) -> Report | None:
    """What to report of a handler that did not stop within its grace."""
    if stop.kind is StopKind.LOST:
        return None
    if stop.kind is StopKind.CANCELLED:
        return _report(key, seconds, cancelled=Cancelled(abandoned=True))
    if stop.kind.is_timeout:
        return _report(key, seconds, failed=_timed_out(stop))
    return _report(key, seconds, interrupted=Interrupted())


def not_begun(key: LeaseKey, stop: Stop) -> Report | None:
    """What to report of a claim whose handler never began."""
    if stop.kind is StopKind.LOST:
        return None
    if stop.kind is StopKind.CANCELLED:
        return _report(key, 0.0, cancelled=Cancelled())
    return _report(key, 0.0, interrupted=Interrupted())


def process_died(
    key: LeaseKey, stop: Stop | None, text: str, faults: str, seconds: float, *, crashed: bool
) -> Report | None:
    """What to report of a handler whose process ended under it.

    :param faults: where it was, as far as that is known.
    :param crashed: it was tried there as a suspect, and would have ended its runner.
    """
    if stop is not None:  # it was killed because it did not stop, or as good as
        return abandoned(key, stop, seconds)
    error = JobError(
        type="HandlerProcessDied",
        message=cut(text, MESSAGE_CHARACTERS),
        traceback=head_and_tail(faults, TRACEBACK_BYTES),
        retryable=True,
    )
    return _report(key, seconds, failed=Failed(error=error, crashed=crashed))


def no_process(key: LeaseKey, stop: Stop | None, text: str) -> Report | None:
    """What to report of a claim for whose handler no process could be started."""
    if stop is not None:
        return not_begun(key, stop)
    message = cut(f"no process for the handler: {text}", MESSAGE_CHARACTERS)
    error = JobError(type="HandlerProcessNotStarted", message=message, retryable=True)
    return _report(key, 0.0, failed=Failed(error=error))


def unknown_type(key: LeaseKey) -> Report:
    """A dispatcher sent what the runner does not know: nothing is charged, and it is not sent back
    at once, or the two would play ball with it.
    """
    snoozed = Snoozed()
    snoozed.delay.FromSeconds(UNKNOWN_TYPE_DELAY_SECONDS)
    return _report(key, 0.0, snoozed=snoozed)


def _is_a_stop(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError | JobCancelled)


def _failed(error: BaseException) -> Failed:
    failed = Failed(error=job_error(error, retryable=not isinstance(error, _PERMANENT)))
    if isinstance(error, RetryLater):
        failed.retry_after.FromNanoseconds(round(error.delay * 1e9))
    return failed


def _timed_out(stop: Stop, error: BaseException | None = None) -> Failed:
    told = JobError(type="TimeoutError", message=stop.reason, retryable=True)
    if error is not None:
        told.traceback = job_error(error).traceback  # shows where it was at the time
    return Failed(error=told, timed_out=True)


def _report(
    key: LeaseKey,
    seconds: float,
    *,
    failed: Failed | None = None,
    cancelled: Cancelled | None = None,
    snoozed: Snoozed | None = None,
    interrupted: Interrupted | None = None,
) -> Report:
    return Report(
        job_id=key[0],
        attempt=key[1],
        run_seconds=seconds,
        failed=failed,
        cancelled=cancelled,
        snoozed=snoozed,
        interrupted=interrupted,
    )
