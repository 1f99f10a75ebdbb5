"""Reading jobs: live and ended ones in one snapshot, and never more than an answer holds.

A job moves between two tables when it ends or is retried by hand. Every read is one statement over
both (the view `jobs`), so it meets each job exactly once. Answers are bounded in bytes as well as
in number: the sizes of payloads, results and tracebacks are known to the database without fetching
them, and what does not fit stays in the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from jobmesh.errors import InvalidField, NotFound
from jobmesh.page_token import JobPosition, job_token, parse_job_token
from jobmesh.v1.job_pb2 import JobView
from jobmesh.v1.job_service_pb2 import JobOrder, ListJobsRequest, ListJobsResponse
from jobmesh_dispatcher import rows
from jobmesh_dispatcher.job_query import filter_arguments, matches_nothing, position_arguments
from jobmesh_dispatcher.sql import load

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh.v1.job_pb2 import Attempt, Job, LogLine
    from jobmesh_dispatcher.database import Connection

DEFAULT_PAGE_SIZE = 50
DEFAULT_LOG_PAGE_SIZE = 1000
# Sizes as stored. A gateway's answer is limited to 16 MiB, and several times larger than what is
# stored where it turns JSON into a Value.
PAGE_BYTES = 4 << 20
ANSWER_BYTES = 12 << 20


async def read_jobs(
    connection: Connection, namespace: str, job_ids: Sequence[str], view: JobView.ValueType
) -> list[Job]:
    """The jobs that exist, in the order asked for; in full unless the view is BASIC.

    :raises InvalidField: they are too large for one answer. One job never is.
    """
    full = view != JobView.JOB_VIEW_BASIC
    wanted = [UUID(job_id) for job_id in job_ids]
    found = await connection.fetch(load("read_jobs"), namespace, full, ANSWER_BYTES, wanted)
    if found and len(found) < found[0]["found"]:
        raise InvalidField(
            "job_ids",
            f"the jobs are larger than {ANSWER_BYTES >> 20} MiB together",
            "ask for fewer at once, or for the view BASIC",
        )
    jobs = {job.job_id: job for job in _jobs(found, full)}
    return [jobs[key] for job_id in wanted if (key := str(job_id)) in jobs]


async def find_jobs(
    connection: Connection, namespace: str, request: ListJobsRequest
) -> ListJobsResponse:
    """A page of the jobs that a filter means, by time of creation.

    It holds fewer jobs than asked for if these are large.

    :raises InvalidField: the page token is not of this list.
    """
    position = parse_job_token(namespace, request)
    if matches_nothing(request.filter):
        return ListJobsResponse()
    size = request.page_size or DEFAULT_PAGE_SIZE
    full = request.view == JobView.JOB_VIEW_FULL
    oldest = request.order == JobOrder.JOB_ORDER_OLDEST_FIRST
    found = await _fetch_planned(
        connection,
        load("list_jobs_oldest" if oldest else "list_jobs_newest"),
        *(namespace, full, PAGE_BYTES, size + 1),
        *position_arguments(position),
        *filter_arguments(request.filter),
    )
    page = found[:size]
    more = bool(page) and page[0]["found"] > len(page)
    token = job_token(namespace, request, _position(page[-1])) if more else ""
    return ListJobsResponse(jobs=_jobs(page, full), next_page_token=token)


async def read_attempts(connection: Connection, namespace: str, job_id: str) -> list[Attempt]:
    """The attempts of a job, oldest first; the last one may still run.

    :raises NotFound:
    """
    row = await connection.fetchrow(load("read_attempts"), namespace, UUID(job_id))
    if row is None:
        raise NotFound.job(job_id)
    return rows.attempts(row)


async def read_log_page(
    connection: Connection, namespace: str, job_id: str, after_sequence: int, page_size: int
) -> list[LogLine]:
    """The lines after one, oldest first.

    :raises NotFound:
    """
    limit = page_size or DEFAULT_LOG_PAGE_SIZE
    lines = await connection.fetch(load("read_log"), namespace, UUID(job_id), after_sequence, limit)
    if not lines:
        raise NotFound.job(job_id)
    return [rows.log_line(line) for line in lines if line["sequence"] is not None]


def _jobs(found: Sequence[Record], full: bool) -> list[Job]:
    make = rows.full_job if full else rows.basic_job
    return [make(row) for row in found]


def _position(row: Record) -> JobPosition:
    time = rows.timestamp(row["create_time"])
    assert time is not None
    return JobPosition(time.ToMicroseconds(), str(row["job_id"]))


async def _fetch_planned(
    connection: Connection, statement: str, *arguments: object
) -> list[Record]:
    """Run a statement that is planned for its arguments.

    A plan made for any filter could neither leave out tables nor use the small indexes. Within a
    transaction, so that a pooler keeps both steps on one connection.
    """
    async with connection.transaction():
        planned = await connection.prepare(statement, name="")
        found: list[Record] = await planned.fetch(*arguments)
        return found
