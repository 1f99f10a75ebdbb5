"""Which jobs a list means, and its pages one after another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import datetime
from typing import Literal

from jobmesh.client.calls import Calls
from jobmesh.client.info import JobInfo, job_info
from jobmesh.client.states import state_number
from jobmesh.client.times import to_timestamp
from jobmesh.v1 import job_pb2, job_service_pb2

Names = str | Iterable[str]
Order = Literal["newest", "oldest"]

LARGEST_PAGE = 1000
# FULL jobs are large: few a page keep an answer within the limit of a message.
FULL_PAGE = 5
_ORDERS = {
    "newest": job_service_pb2.JOB_ORDER_NEWEST_FIRST,
    "oldest": job_service_pb2.JOB_ORDER_OLDEST_FIRST,
}


def job_filter(
    *,
    queue: Names = (),
    type: Names = (),  # noqa: A002
    state: Names = (),
    labels: Mapping[str, str] | None = None,
    runner_id: str = "",
    schedule_id: str = "",
    parent_job_id: str = "",
    error_type: str = "",
    created_from: datetime | None = None,
    created_to: datetime | None = None,
    ended_from: datetime | None = None,
    ended_to: datetime | None = None,
) -> job_pb2.JobFilter:
    """The filter: arguments are combined by AND, the names of one argument by OR.

    Args:
        created_from, ended_from: this time or later.
        created_to, ended_to: before this time.

    Raises:
        ValueError: a state is unknown, or a time has no zone.
    """
    chosen = job_pb2.JobFilter(
        queues=_names(queue),
        types=_names(type),
        states=[state_number(name) for name in _names(state)],
        labels=dict(labels or {}),
        runner_id=runner_id,
        schedule_id=schedule_id,
        parent_job_id=parent_job_id,
        error_type=error_type,
    )
    times = {
        "create_time_from": created_from,
        "create_time_to": created_to,
        "end_time_from": ended_from,
        "end_time_to": ended_to,
    }
    for name, time in times.items():
        if time is not None:
            getattr(chosen, name).CopyFrom(to_timestamp(time))
    return chosen


async def list_jobs(
    calls: Calls,
    chosen: job_pb2.JobFilter,
    *,
    order: Order = "newest",
    full: bool = False,
    limit: int | None = None,
) -> AsyncGenerator[JobInfo, None]:
    """The jobs of all pages; at most ``limit``.

    Raises:
        ValueError: the order is unknown.
        JobmeshError: the list cannot be read.
    """
    if order not in _ORDERS:
        raise ValueError(f"no such order: {order!r}; there are {', '.join(_ORDERS)}")
    request = job_service_pb2.ListJobsRequest(
        filter=chosen,
        order=_ORDERS[order],
        view=job_pb2.JOB_VIEW_FULL if full else job_pb2.JOB_VIEW_BASIC,
    )
    left = limit
    while left is None or left > 0:
        most = FULL_PAGE if full else LARGEST_PAGE
        request.page_size = most if left is None else min(most, left)
        page = await calls.unary(calls.jobs.ListJobs, request)
        for job in page.jobs:
            yield job_info(job)
        left = None if left is None else left - len(page.jobs)
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return


def _names(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
