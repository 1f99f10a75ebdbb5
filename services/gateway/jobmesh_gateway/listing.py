"""Pages of jobs, attempts, and logs."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from jobmesh.ids import parse_job_id
from jobmesh.v1.dispatch_service_pb2 import (
    FindJobsRequest,
    ReadAttemptsRequest,
    ReadLogPageRequest,
)
from jobmesh.v1.job_pb2 import JOB_VIEW_BASIC, JOB_VIEW_FULL, LogLine
from jobmesh.v1.job_service_pb2 import (
    JOB_ORDER_NEWEST_FIRST,
    ListAttemptsRequest,
    ListAttemptsResponse,
    ListJobsRequest,
    ListJobsResponse,
)
from jobmesh.validation import page_size_or_default
from jobmesh_gateway.checks import check_list
from jobmesh_gateway.dispatchers import CALL_SECONDS, AnswerTooLarge, Dispatchers, answer
from jobmesh_gateway.presenting import present_jobs, require_sendable

LOG_PAGE = 500
# FULL jobs may be megabytes each, in the dispatcher's memory, too.
MAX_FULL_PAGE = 100


class JobLists:
    """Reads lists from dispatchers."""

    def __init__(self, dispatchers: Dispatchers, namespace: str) -> None:
        self._dispatchers = dispatchers
        self._namespace = namespace

    async def jobs(self, request: ListJobsRequest, seconds: float) -> ListJobsResponse:
        """A page of jobs; of large ones fewer than asked for.

        :raises AnswerTooLarge: a single job does not fit a message.
        """
        check_list(request, self._namespace)
        request.page_size = page_size_or_default(request.page_size)
        request.order = request.order or JOB_ORDER_NEWEST_FIRST
        request.view = request.view or JOB_VIEW_BASIC
        if request.view == JOB_VIEW_FULL:
            request.page_size = min(request.page_size, MAX_FULL_PAGE)
        while True:
            try:
                return await self._page(request, seconds)
            except AnswerTooLarge:
                if request.page_size == 1:
                    raise
                request.page_size //= 2

    async def _page(self, request: ListJobsRequest, seconds: float) -> ListJobsResponse:
        find = FindJobsRequest(namespace=self._namespace, request=request)
        found = await answer(self._dispatchers.stub.FindJobs(find, timeout=seconds))
        if request.view == JOB_VIEW_FULL:
            await present_jobs(found.page.jobs)
        return require_sendable(found.page)

    async def attempts(self, request: ListAttemptsRequest, seconds: float) -> ListAttemptsResponse:
        """The attempts of a job, oldest first.

        :raises NotFound: there is no such job.
        """
        job_id = parse_job_id(request.job_id)
        read = ReadAttemptsRequest(namespace=self._namespace, job_id=job_id)
        found = await answer(self._dispatchers.stub.ReadAttempts(read, timeout=seconds))
        return ListAttemptsResponse(attempts=found.attempts)

    async def log(self, job_id: str, after_sequence: int) -> AsyncGenerator[LogLine, None]:
        """What a job has logged so far, page by page.

        :raises NotFound: there is no such job.
        """
        while True:
            page = await self.log_page(job_id, after_sequence)
            for line in page:
                yield line
            if len(page) < LOG_PAGE:
                return
            after_sequence = page[-1].sequence

    async def log_page(self, job_id: str, after_sequence: int) -> list[LogLine]:
        """At most `LOG_PAGE` lines; fewer only at the end."""
        request = ReadLogPageRequest(
            namespace=self._namespace,
            job_id=job_id,
            after_sequence=after_sequence,
            page_size=LOG_PAGE,
        )
        page = await answer(self._dispatchers.stub.ReadLogPage(request, timeout=CALL_SECONDS))
        return list(page.lines)
