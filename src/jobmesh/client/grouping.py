"""Concurrent submissions of one client, sent together without the callers noticing.

A submission that finds the client idle leaves at once, by itself. Those that arrive while others
are on their way go together in the next call. Each caller gets its own answer or error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from google.rpc import code_pb2

from jobmesh.batching import Batcher
from jobmesh.client.calls import Calls
from jobmesh.client.patience import Patience
from jobmesh.client.submission import Submission
from jobmesh.errors import JobmeshError, Unavailable, from_status
from jobmesh.v1 import job_service_pb2

Answer = job_service_pb2.SubmitJobResponse | JobmeshError

# What one call carries at most, by the contract.
MOST_JOBS = 10_000
MOST_BYTES = 8 << 20
# Smaller groups than the contract allows: the first of a group waits for the last.
GROUP_JOBS = 1000
GROUP_BYTES = 4 << 20
FLIGHTS = 4
MOST_WAITING = 10_000


class Submitting:
    """Sends submissions, grouped, and again with the same ``request_id`` while nobody answers."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._room = asyncio.Semaphore(MOST_WAITING)
        self._batcher: Batcher[Submission, job_service_pb2.SubmitJobResponse] = Batcher(
            self._send_group,
            max_items=GROUP_JOBS,
            max_bytes=GROUP_BYTES,
            max_waiting=MOST_WAITING,
            flights=FLIGHTS,
            name="submit",
        )

    async def start(self) -> None:
        """Accept submissions."""
        await self._batcher.start()

    async def stop(self) -> None:
        """Wait for the answers to what was accepted."""
        await self._batcher.stop()

    async def submit(self, submission: Submission) -> job_service_pb2.SubmitJobResponse:
        """The answer, once the job is durable.

        Raises:
            JobmeshError: it was refused, or the mesh stays unavailable.
        """
        self._calls.require_open()
        # Whoever submits faster than the mesh stores waits here, instead of being refused.
        async with self._room:
            return await self._batcher.submit(submission, submission.size)

    async def send_all(self, submissions: Sequence[Submission], *, partial: bool) -> list[Answer]:
        """Send one batch; an answer for each. Unless ``partial`` it is all or nothing.

        Raises:
            JobmeshError: the batch as a whole failed.
        """
        answers: dict[int, Answer] = {}
        patience = Patience(self._calls.connection.patience)
        waiting = list(range(len(submissions)))
        while True:
            batch = await self._call([submissions[i] for i in waiting], partial)
            answers.update(zip(waiting, batch, strict=True))
            waiting = [i for i in waiting if isinstance(answers[i], Unavailable)]
            if not waiting:
                return [answers[i] for i in range(len(submissions))]
            refused = answers[waiting[0]]
            assert isinstance(refused, Unavailable)
            try:
                await patience.pause(refused)
            except Unavailable:
                return [answers[i] for i in range(len(submissions))]

    async def _send_group(self, group: list[Submission]) -> Sequence[Answer]:
        if len(group) == 1:
            return [await self._calls.unary(self._calls.jobs.SubmitJob, group[0].request)]
        return await self.send_all(group, partial=True)

    async def _call(self, batch: Sequence[Submission], partial: bool) -> list[Answer]:
        request = job_service_pb2.BatchSubmitJobsRequest(
            requests=[submission.request for submission in batch], partial=partial
        )
        response = await self._calls.unary(self._calls.jobs.BatchSubmitJobs, request)
        if len(response.results) != len(batch):
            raise JobmeshError(
                f"the mesh answered {len(response.results)} results for {len(batch)} jobs"
            )
        return [_answer(result) for result in response.results]


def _answer(result: job_service_pb2.BatchSubmitJobsResult) -> Answer:
    if result.WhichOneof("result") == "error" and result.error.code != code_pb2.OK:
        return from_status(result.error)
    return result.ok
