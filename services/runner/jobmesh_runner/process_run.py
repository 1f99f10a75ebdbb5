"""Running an attempt in a process of its own, and minding it meanwhile. Of a handler's thread."""

from __future__ import annotations

import time
from concurrent.futures import Future

from jobmesh import codec
from jobmesh.errors import LeaseLost
from jobmesh.outcomes import TooManySteps
from jobmesh.v1.job_pb2 import Payload
from jobmesh.v1.runner_service_pb2 import Report
from jobmesh_runner import outcome
from jobmesh_runner import worker_messages as m
from jobmesh_runner.attempt import Attempt, LatestProgress, Stop, StopKind
from jobmesh_runner.messages import Line
from jobmesh_runner.outbox import PendingCheckpoint
from jobmesh_runner.pending_steps import PendingStep
from jobmesh_runner.port import MeshPort
from jobmesh_runner.worker_process import ProcessDied, WorkerProcess
from jobmesh_runner.workers import NoProcess, Workers


class ProcessRuns:
    """Runs attempts in processes."""

    def __init__(self, workers: Workers, mesh: MeshPort, limit_bytes: int) -> None:
        self._workers = workers
        self._mesh = mesh
        self._limit = limit_bytes

    def run(self, attempt: Attempt) -> Report | None:
        """The outcome; blocks until it is there. It never raises."""
        if attempt.stop is not None:
            return outcome.not_begun(attempt.key, attempt.stop)
        try:
            worker = self._workers.acquire()
        except NoProcess as error:
            return outcome.no_process(attempt.key, attempt.stop, str(error))
        try:
            report = self._run_in(worker, attempt)
        except ProcessDied as died:
            self._workers.discard(worker)
            if not died.is_known and attempt.stop is None:
                attempt.stop = Stop(StopKind.INTERRUPTED, str(died))  # no fault of the handler
            seconds = max(attempt.seconds_run(), 1e-9)
            # A task that asks for a process has its deaths counted as failures, by its policy.
            crashed = attempt.task is None or not attempt.task.process
            return outcome.process_died(
                attempt.key, attempt.stop, str(died), died.faults, seconds, crashed=crashed
            )
        finally:
            attempt.process = None
        self._workers.release(worker)
        return report

    def _run_in(self, worker: WorkerProcess, attempt: Attempt) -> Report | None:
        worker.run += 1
        attempt.process = worker
        attempt.began_at = time.perf_counter()
        self._mesh.started(attempt)
        worker.post(m.Run(worker.run, attempt.assignment.SerializeToString(), self._limit))
        if attempt.stop is not None:
            # Set meanwhile; whoever did may have found no process to tell.
            worker.stop(attempt.stop)
        while True:
            message = worker.receive()
            if isinstance(message, m.Ended):
                return None if message.report is None else Report.FromString(message.report)
            self._pass_on(message, worker, attempt)

    def _pass_on(self, message: m.FromWorker, worker: WorkerProcess, attempt: Attempt) -> None:
        attempt.said_at = time.monotonic()
        if isinstance(message, m.Progressed):
            attempt.latest = LatestProgress(
                message.fraction, message.message, message.current, message.total, message.time_ns
            )
            if not attempt.progress_waits:
                attempt.progress_waits = True
                self._mesh.progress(attempt)
        elif isinstance(message, m.Logged):
            self._mesh.line(attempt, Line(message.level, message.message, message.time_ns))
        elif isinstance(message, m.CheckpointAsked):
            self._checkpoint(message, worker, attempt)
        elif isinstance(message, m.StepAsked):
            self._step(message, worker, attempt)

    def _checkpoint(
        self, asked: m.CheckpointAsked, worker: WorkerProcess, attempt: Attempt
    ) -> None:
        done: Future[None] = Future()
        run, sequence = worker.run, asked.sequence

        def answer(done: Future[None]) -> None:
            if not done.cancelled():  # a younger one took its place: nobody waits for it
                is_lost = done.exception() is not None
                worker.post(m.CheckpointAnswer(run, sequence, is_lost))

        done.add_done_callback(answer)
        payload = Payload(data=asked.data, content_type=codec.CONTENT_TYPE)
        self._mesh.checkpoint(PendingCheckpoint(attempt, sequence, payload, done))

    def _step(self, asked: m.StepAsked, worker: WorkerProcess, attempt: Attempt) -> None:
        done: Future[Payload | None] = Future()
        run, sequence = worker.run, asked.sequence
        done.add_done_callback(lambda done: worker.post(_step_answer(run, sequence, done)))
        result = None
        if asked.result is not None:
            result = Payload(data=asked.result, content_type=codec.CONTENT_TYPE)
        self._mesh.step(PendingStep(attempt, sequence, asked.key, result, done))


def _step_answer(run: int, sequence: int, done: Future[Payload | None]) -> m.StepAnswer:
    error = done.exception()
    if error is None:
        stored = done.result()
        return m.StepAnswer(run, sequence, None if stored is None else stored.data)
    return m.StepAnswer(
        run,
        sequence,
        is_lost=isinstance(error, LeaseLost),
        is_refused=isinstance(error, TooManySteps),
    )
