"""Requests about jobs, checked: each function raises all mistakes at once as `InvalidFields`."""

from __future__ import annotations

from jobmesh.errors import InvalidField, PayloadTooLarge
from jobmesh.page_token import parse_job_token
from jobmesh.payload import Normal, normalise
from jobmesh.v1.job_pb2 import JobView
from jobmesh.v1.job_service_pb2 import (
    BatchGetJobsRequest,
    CancelJobRequest,
    JobOrder,
    ListJobsRequest,
    ReadLogRequest,
    RetryJobRequest,
    WaitJobRequest,
    WatchInclude,
    WatchJobRequest,
)
from jobmesh.validation import (
    Violations,
    check_duration,
    check_filter,
    check_job_id,
    check_note,
    check_page_size,
)
from jobmesh.validation.enums import check_enum
from jobmesh.validation.times import WAIT

MAX_BATCH_IDS = 1000
MAX_INCLUDES = 10
DEFAULT_WAIT_SECONDS = 30.0

_KINDS = {
    WatchInclude.WATCH_INCLUDE_UNSPECIFIED: "progress",
    WatchInclude.WATCH_INCLUDE_PROGRESS: "progress",
    WatchInclude.WATCH_INCLUDE_LOG: "log",
    WatchInclude.WATCH_INCLUDE_CHECKPOINT: "checkpoint",
}


def checked_view(view: int, default: JobView.ValueType) -> JobView.ValueType:
    """The view that is meant."""
    found = Violations()
    check_enum(view, "view", found, JobView.DESCRIPTOR)
    found.raise_any()
    return JobView.ValueType(view) or default


def checked_ids(request: BatchGetJobsRequest) -> list[str]:
    """The ids in their canonical form."""
    if not 1 <= len(request.job_ids) <= MAX_BATCH_IDS:
        why = f"has {len(request.job_ids)} entries; 1 to {MAX_BATCH_IDS} are allowed"
        raise InvalidField("job_ids", why)
    found = Violations()
    ids = [check_job_id(text, f"job_ids[{i}]", found) for i, text in enumerate(request.job_ids)]
    found.raise_any()
    return ids


def check_list(request: ListJobsRequest, namespace: str) -> None:
    """Filter, order, view, and the page, whose token must belong to them."""
    found = Violations()
    check_filter(request.filter, "filter", found)
    check_page_size(request.page_size, "page_size", found)
    check_enum(request.order, "order", found, JobOrder.DESCRIPTOR)
    check_enum(request.view, "view", found, JobView.DESCRIPTOR)
    try:
        parse_job_token(namespace, request)
    except InvalidField as error:
        found.take(error)
    found.raise_any()


def checked_watch(request: WatchJobRequest) -> tuple[str, frozenset[str]]:
    """The job's id, and the kinds of events wanted beside changes of state."""
    found = Violations()
    job_id = check_job_id(request.job_id, "job_id", found)
    if request.after_revision < 0:
        found.add("after_revision", "must not be negative")
    if len(request.include) > MAX_INCLUDES:
        found.add("include", f"has more than {MAX_INCLUDES} entries")
    for index, include in enumerate(request.include[:MAX_INCLUDES]):
        check_enum(include, f"include[{index}]", found, WatchInclude.DESCRIPTOR)
    found.raise_any()
    included = request.include or [WatchInclude.WATCH_INCLUDE_PROGRESS]
    return job_id, frozenset(_KINDS[include] for include in included if include in _KINDS)


def checked_wait(request: WaitJobRequest) -> tuple[str, float]:
    """The job's id, and how long to wait in seconds."""
    found = Violations()
    job_id = check_job_id(request.job_id, "job_id", found)
    seconds = DEFAULT_WAIT_SECONDS
    if request.HasField("timeout"):
        check_duration(request.timeout, "timeout", found, WAIT)
        seconds = request.timeout.seconds + request.timeout.nanos / 1e9
    found.raise_any()
    return job_id, seconds


def checked_log(request: ReadLogRequest) -> str:
    """The job's id."""
    found = Violations()
    job_id = check_job_id(request.job_id, "job_id", found)
    if request.after_sequence < 0:
        found.add("after_sequence", "must not be negative")
    found.raise_any()
    return job_id


def checked_cancel(request: CancelJobRequest) -> str:
    """The job's id."""
    found = Violations()
    job_id = check_job_id(request.job_id, "job_id", found)
    check_note(request.reason, "reason", found)
    _check_revision(request, found)
    found.raise_any()
    return job_id


def checked_retry(request: RetryJobRequest, limit: int) -> tuple[str, Normal | None]:
    """The job's id, and the payload that replaces its own, if there is one."""
    found = Violations()
    job_id = check_job_id(request.job_id, "job_id", found)
    _check_revision(request, found)
    payload = None
    if request.HasField("payload"):
        try:
            payload = normalise(request.payload, "payload", limit=limit)
        except (InvalidField, PayloadTooLarge) as error:
            found.take(error)
    found.raise_any()
    return job_id, payload


def _check_revision(request: CancelJobRequest | RetryJobRequest, found: Violations) -> None:
    if request.HasField("expected_revision") and request.expected_revision < 1:
        found.add("expected_revision", f"is {request.expected_revision}; revisions begin with 1")
