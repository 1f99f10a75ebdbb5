"""Calls of clients, drawn from a seed, each of them recorded."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

import grpc

from jobmesh.client import Client, Ended, ProgressMade, Snapshot, StateChanged, Submission
from jobmesh.errors import JobmeshError
from tests.faults import handlers
from tests.faults.history import History, Operation

CALL_SECONDS = 15.0
# A call may take as long as its client was told, and what a busy machine adds.
LONGEST_CALL = CALL_SECONDS + 10.0
WATCH_SECONDS = 90.0
MOST_AT_ONCE = 150
BATCH = 20
REMEMBERED = 2000
RECENT = 200
OLD_ENOUGH_SECONDS = 3.0
# How often each call comes; a batch has many jobs.
WEIGHTS = {
    "submit": 30,
    "batch": 6,
    "twice": 4,
    "cancelled": 4,
    "cancel": 4,
    "retry": 4,
    "watch": 6,
    "get": 6,
}
JOBS_A_CALL = (30 + 6 * BATCH + 4 + 4) / sum(WEIGHTS.values())


class Workload:
    """Use it by `run`, then `finish`.

    :param clients: two of them, as if they were two programs.
    :param rate: jobs a second.
    """

    def __init__(self, history: History, clients: Sequence[Client], seed: int, rate: float) -> None:
        self._history = history
        self._clients = clients
        self._dice = random.Random(f"calls-{seed}")
        self._pause = JOBS_A_CALL / rate
        self._numbers = itertools.count()
        self._known: deque[tuple[float, str]] = deque(maxlen=REMEMBERED)
        self._retried: set[str] = set()
        self._calls: set[asyncio.Task[Any]] = set()
        self._room = asyncio.Semaphore(MOST_AT_ONCE)

    async def run(self) -> None:
        """Begin calls until cancelled."""
        clock = asyncio.get_running_loop().time
        due = clock()
        while True:
            await self._room.acquire()
            self._begin(self._draw())
            # After a stall of the machine the calls that were missed are not made up for.
            due = max(due + self._dice.expovariate(1 / self._pause), clock() - 1.0)
            await asyncio.sleep(max(due - clock(), 0.0))

    async def finish(self) -> None:
        """Await the calls on their way; raises whatever is no error of the mesh."""
        await asyncio.gather(*self._calls)

    async def abandon(self) -> None:
        """Await nothing any more."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)

    def _begin(self, call: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(call)
        self._calls.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._room.release()
        if not task.cancelled() and task.exception() is None:
            self._calls.discard(task)

    def _draw(self) -> Coroutine[Any, Any, Any]:
        kind = self._dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        client = self._dice.choice(self._clients)
        if kind == "batch":
            return self._batch([self._submission(client) for _ in range(BATCH)], client)
        if kind == "twice":
            return self._twice(*self._submission(client))
        if kind == "cancelled":
            return self._cancelled(self._patient(client), client, self._dice.uniform(0.0, 2.0))
        target = self._target(kind)
        if target is None or kind == "submit":
            return self._submit(*self._submission(client), client)
        return {"cancel": self._cancel, "retry": self._retry, "watch": self._watch}.get(
            kind, self._get
        )(target, client)

    def _target(self, kind: str) -> str | None:
        """A job that was acknowledged; for a retry one that has had the time to end."""
        if kind == "retry":
            return self._to_retry()
        recent = min(len(self._known), RECENT)
        return self._known[-1 - self._dice.randrange(recent)][1] if recent else None

    def _to_retry(self) -> str | None:
        horizon = time.time() - OLD_ENOUGH_SECONDS
        fitting = [
            job_id
            for moment, job_id in self._known
            if moment < horizon and job_id not in self._retried
        ]
        chosen = self._dice.choice(fitting) if fitting else None
        if chosen:
            self._retried.add(chosen)
        return chosen

    def _submission(self, client: Client) -> tuple[str, Submission]:
        dice = self._dice
        labels: dict[str, str] = {}
        task, arguments = dice.choices(
            [
                (handlers.quick, {}),
                (handlers.slow, {"millis": dice.randint(20, 600)}),
                (handlers.limited, {"millis": dice.randint(5, 30)}),
                (handlers.flaky, {"falls": dice.randint(0, handlers.MOST_FAILURES + 1)}),
                (handlers.steps, {"count": dice.randint(2, 10), "millis": 40}),
            ],
            # So many limited ones as keep three slots busy on two cores, and no more: what comes
            # faster than it can be done waits for ever, with or without faults.
            [53, 15, 2, 10, 5],
        )[0]
        if task is handlers.flaky:
            labels = {"falls": str(arguments["falls"]), "most": str(handlers.MOST_FAILURES)}
        delay = dice.uniform(0.1, 3.0) if dice.random() < 0.1 else None
        return self._prepared(
            client, task, arguments, labels=labels, delay=delay, priority=dice.randint(0, 9)
        )

    def _patient(self, client: Client) -> tuple[str, Submission]:
        return self._prepared(client, handlers.patient, {"millis": 3000})

    def _prepared(
        self, client: Client, task: Any, arguments: dict[str, Any], **options: Any
    ) -> tuple[str, Submission]:
        request_id = f"request-{next(self._numbers)}"
        prepared = client.with_options(request_id=request_id, **options).prepare(task, **arguments)
        return request_id, prepared

    async def _batch(self, items: Sequence[tuple[str, Submission]], client: Client) -> None:
        async with self._history.operation("batch") as operation:
            operation.request_ids = tuple(request_id for request_id, _ in items)
            handles = await client.submit_many([submission for _, submission in items])
            self._answered(operation, [handle.id for handle in handles])

    async def _submit(self, request_id: str, submission: Submission, client: Client) -> str | None:
        """The job, if the mesh said so."""
        async with self._history.operation("submit") as operation:
            operation.request_ids = (request_id,)
            (handle,) = await client.submit_many([submission])
            self._answered(operation, [handle.id])
        return operation.job_ids[0] if operation.job_ids else None

    async def _twice(self, request_id: str, submission: Submission) -> None:
        """Two programs submit the same request at once."""
        await asyncio.gather(
            *(self._submit(request_id, submission, client) for client in self._clients)
        )

    async def _cancelled(self, item: tuple[str, Submission], client: Client, after: float) -> None:
        job_id = await self._submit(*item, client)
        if job_id is not None:
            await asyncio.sleep(after)
            await self._cancel(job_id, client)

    def _answered(self, operation: Operation, job_ids: Sequence[str]) -> None:
        operation.job_ids = tuple(job_ids)
        now = time.time()
        self._known.extend((now, job_id) for job_id in job_ids)

    async def _cancel(self, job_id: str, client: Client) -> None:
        async with self._history.operation("cancel", job_id):
            await client.job(job_id).cancel("drawn by lot")

    async def _retry(self, job_id: str, client: Client) -> None:
        async with self._history.operation("retry", job_id):
            await client.job(job_id).retry()

    async def _get(self, job_id: str, client: Client) -> None:
        async with self._history.operation("get", job_id):
            await client.job(job_id).get()

    async def _watch(self, job_id: str, client: Client) -> None:
        async with self._history.operation("watch", job_id) as operation:
            try:
                async with asyncio.timeout(WATCH_SECONDS):
                    await _follow(client, job_id, operation)
            except TimeoutError:
                raise WatchHangs from None


class WatchHangs(JobmeshError):
    """A watch that did not come to its end, though all jobs end long before."""

    default_reason = "WATCH_HANGS"

    def __init__(self) -> None:
        super().__init__(f"not ended within {WATCH_SECONDS:g} s", code=grpc.StatusCode.INTERNAL)


async def _follow(client: Client, job_id: str, operation: Operation) -> None:
    async for event in client.job(job_id).watch():
        if isinstance(event, StateChanged):
            operation.seen.append((event.change.revision, str(event.change.state)))
        else:
            assert isinstance(event, Snapshot | ProgressMade | Ended)
