"""A caller's request as a dispatcher stores it: checked, with defaults, under an id."""

from __future__ import annotations

import time
from hashlib import sha256

from jobmesh.errors import InvalidField, PayloadTooLarge
from jobmesh.ids import new_id
from jobmesh.payload import Normal, normalise
from jobmesh.v1.dispatch_service_pb2 import JobSubmission
from jobmesh.v1.job_pb2 import RESTART_POLICY_ON_FAILURE, Job, JobSpec, JobState
from jobmesh.v1.job_service_pb2 import SubmitJobRequest, SubmitJobResponse
from jobmesh.validation import Violations, check_id, check_job_spec

DEFAULT_QUEUE = "default"
DEFAULT_PRIORITY = 4


def check(
    request: SubmitJobRequest, found: Violations, limit: int, prefix: str = ""
) -> Normal | None:
    """Check everything; the payload in its one form, or nothing if it cannot be taken.

    :param limit: the most bytes of a payload.
    :param prefix: stands before the paths of fields, e.g. ``requests[3].``.
    """
    job = request.job
    check_job_spec(job, f"{prefix}job", found)
    if request.request_id:
        check_id(request.request_id, f"{prefix}request_id", found)
    try:
        return normalise(job.payload, f"{prefix}job.payload", limit=limit)
    except (InvalidField, PayloadTooLarge) as error:
        found.take(error)
        return None


def build(
    request: SubmitJobRequest, payload: Normal, namespace: str, traceparent: str
) -> JobSubmission:
    """What a dispatcher is to store for a request that was checked."""
    submission = JobSubmission(
        job_id=new_id(),
        namespace=namespace,
        job=request.job,
        request_id=request.request_id,
        traceparent=traceparent,
    )
    job = submission.job
    fill_defaults(job)
    if request.request_id:
        submission.digest = _digest(job, payload)
    job.payload.data = payload.data
    job.payload.content_type = payload.content_type
    return submission


def preview(request: SubmitJobRequest, namespace: str) -> SubmitJobResponse:
    """The answer to a request that is only to be checked: the job as it would be, BASIC."""
    job = Job(namespace=namespace, spec=request.job, state=_first_state(request.job))
    fill_defaults(job.spec)
    job.spec.ClearField("payload")
    return SubmitJobResponse(job=job, created=False)


def fill_defaults(job: JobSpec) -> None:
    """Those that do not depend on the queue."""
    if not job.queue:
        job.queue = DEFAULT_QUEUE
    if not job.HasField("priority"):
        job.priority = DEFAULT_PRIORITY
    if not job.restart:
        job.restart = RESTART_POLICY_ON_FAILURE
    if job.parent_job_id:
        job.parent_job_id = job.parent_job_id.lower()


def _digest(job: JobSpec, payload: Normal) -> bytes:
    """SHA-256 of what was asked for; the same for `json` and `data`, for any order of entries."""
    job.payload.data = payload.canonical()
    job.payload.content_type = payload.content_type
    return sha256(job.SerializeToString(deterministic=True)).digest()


def _first_state(job: JobSpec) -> JobState.ValueType:
    from_now = job.HasField("delay") and (job.delay.seconds or job.delay.nanos)
    if from_now or (job.HasField("run_at") and _is_future(job)):
        return JobState.JOB_STATE_SCHEDULED
    return JobState.JOB_STATE_QUEUED


def _is_future(job: JobSpec) -> bool:
    # By the gateway's clock, which is good enough for a preview.
    return bool(job.run_at.seconds > time.time())
