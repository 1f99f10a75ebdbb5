"""Reads of jobs by id, grouped: concurrent reads share a call, and reads of one job an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from jobmesh.batching import Batcher
from jobmesh.errors import NotFound
from jobmesh.v1.dispatch_service_pb2 import ReadJobsRequest
from jobmesh.v1.job_pb2 import JOB_VIEW_BASIC, JOB_VIEW_FULL, Job, JobView
from jobmesh_gateway.dispatchers import CALL_SECONDS, AnswerTooLarge, Dispatchers, answer
from jobmesh_gateway.presenting import MAX_ANSWER_BYTES, present_jobs

_Flush = Callable[[list[str]], Awaitable[Sequence[Job | BaseException | None]]]

# FULL jobs may be megabytes each, in the dispatcher's memory, too: few are asked for at a time, and
# what does not fit a message is asked for again, in halves.
_FULL_ITEMS = 16
_BASIC_ITEMS = 1000


class JobReader:
    """Reads jobs from dispatchers. A lifecycle part.

    The jobs that it returns may be shared with other readers: they must not be changed.
    """

    def __init__(self, dispatchers: Dispatchers, namespace: str) -> None:
        self._dispatchers = dispatchers
        self._namespace = namespace
        self._full = self._batcher(self._flush_full, _FULL_ITEMS, "reads-full")
        self._basic = self._batcher(self._flush_basic, _BASIC_ITEMS, "reads-basic")

    async def start(self) -> None:
        """Accept reads."""
        await self._full.start()
        await self._basic.start()

    async def stop(self) -> None:
        """Wait for those in flight."""
        await self._full.stop()
        await self._basic.stop()

    async def read(self, job_id: str, view: JobView.ValueType = JOB_VIEW_FULL) -> Job:
        """The job as it stands, seeing everything that was answered before the call.

        :raises NotFound: there is no such job.
        """
        batcher = self._basic if view == JOB_VIEW_BASIC else self._full
        job = await batcher.submit(job_id)
        if job is None:
            raise NotFound.job(job_id)
        return job

    async def read_many(
        self, job_ids: Sequence[str], view: JobView.ValueType, seconds: float = CALL_SECONDS
    ) -> list[Job]:
        """Those of the jobs that exist, in the order asked for.

        :raises AnswerTooLarge: together they do not fit one message.
        """
        step = _FULL_ITEMS if view == JOB_VIEW_FULL else _BASIC_ITEMS
        jobs: list[Job] = []
        size = 0
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        for start in range(0, len(job_ids), step):
            page = await self._read(job_ids[start : start + step], view, end - clock())
            size += sum(job.ByteSize() for job in page)
            if size > MAX_ANSWER_BYTES:
                raise AnswerTooLarge
            jobs += page
        return jobs

    async def _read(
        self, job_ids: Sequence[str], view: JobView.ValueType, seconds: float = CALL_SECONDS
    ) -> list[Job]:
        request = ReadJobsRequest(namespace=self._namespace, job_ids=job_ids, view=view)
        call = self._dispatchers.stub.ReadJobs(request, timeout=max(seconds, 0.001))
        response = await answer(call)
        jobs = list(response.jobs)
        if view == JOB_VIEW_FULL:
            await present_jobs(jobs)
        return jobs

    def _batcher(self, flush: _Flush, items: int, name: str) -> Batcher[str, Job | None]:
        return Batcher(flush, max_items=items, max_waiting=50_000, flights=2, name=name)

    async def _flush_full(self, job_ids: list[str]) -> Sequence[Job | BaseException | None]:
        return await self._flush(job_ids, JOB_VIEW_FULL)

    async def _flush_basic(self, job_ids: list[str]) -> Sequence[Job | BaseException | None]:
        return await self._flush(job_ids, JOB_VIEW_BASIC)

    async def _flush(
        self, job_ids: list[str], view: JobView.ValueType
    ) -> Sequence[Job | BaseException | None]:
        found = await self._halving(list(dict.fromkeys(job_ids)), view)
        return [found.get(job_id) for job_id in job_ids]

    async def _halving(
        self, job_ids: list[str], view: JobView.ValueType
    ) -> dict[str, Job | BaseException]:
        try:
            jobs = await self._read(job_ids, view)
        except AnswerTooLarge as error:
            if len(job_ids) == 1:
                return {job_ids[0]: error}
            middle = len(job_ids) // 2
            first = await self._halving(job_ids[:middle], view)
            return first | await self._halving(job_ids[middle:], view)
        return {job.job_id: job for job in jobs}
