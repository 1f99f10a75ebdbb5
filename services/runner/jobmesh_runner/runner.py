"""The runner's process: two threads and what each of them owns."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import uvloop

from jobmesh.server import tracing
from jobmesh.server.grpc_server import GrpcServer
from jobmesh.server.health_http import HealthHttp
from jobmesh.server.lifecycle import Part, Service
from jobmesh.server.readiness import Readiness
from jobmesh.server.watchdog import Watchdog
from jobmesh.task import Task
from jobmesh.v1.runner_service_pb2 import Hello
from jobmesh_runner.app_loading import load_schedules
from jobmesh_runner.capacity import CapacityTeller
from jobmesh_runner.claims import Claims
from jobmesh_runner.config import RunnerConfig
from jobmesh_runner.drain import Drain
from jobmesh_runner.executor import Executor
from jobmesh_runner.handoff import Handoff
from jobmesh_runner.invocation import Invocation
from jobmesh_runner.loop_guard import LoopGuard
from jobmesh_runner.mesh_thread import MeshThread
from jobmesh_runner.outbox import Outbox
from jobmesh_runner.port import ExecutorPort, MeshPort
from jobmesh_runner.prefetch import Prefetch
from jobmesh_runner.process_run import ProcessRuns
from jobmesh_runner.registration import Registration
from jobmesh_runner.session import Session
from jobmesh_runner.supervision import Supervision
from jobmesh_runner.telemetry import Telemetry
from jobmesh_runner.workers import IDLE_SECONDS, Workers

log = logging.getLogger(__name__)

NAME = "runner"
CLOSE_SECONDS = 1.0


class Runner:
    """Serves the tasks until it is told to stop.

    :meth:`run` takes the main thread for the users' loop. What it holds is built here and each part
    used by one thread, as :mod:`jobmesh_runner` says.
    """

    def __init__(self, config: RunnerConfig, tasks: Mapping[str, Task[Any, Any]]) -> None:
        self._config = config
        self._tasks = tasks
        self._telemetry = Telemetry(config.slots)
        self._claims = Claims()
        self._outbox = Outbox(self._claims)
        self._supervision = Supervision(
            tasks,
            self._claims,
            self._outbox,
            self._telemetry,
            most_waiting=2 * (config.slots + config.prefetch),
            cancel_grace=config.cancel_grace_seconds,
        )
        self._to_mesh = Handoff()
        mesh = MeshPort(self._to_mesh, self._supervision)
        self._workers = Workers(config.app)
        self._executor = Executor(
            config.slots,
            self._claims.waiting,
            mesh,
            Invocation(mesh, config.payload_limit_bytes),
            ProcessRuns(self._workers, mesh, config.payload_limit_bytes),
            lambda: self._outbox.is_congested,
        )
        self._service: Service | None = None
        self._signals = 0
        self._over: asyncio.Future[int]

    def run(self) -> int:
        """Run until SIGTERM or SIGINT; the exit code. A second signal ends the process at once."""
        self._handle_signals()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loops:
            loop = loops.get_loop()
            main = loop.create_task(self._main(), name="runner")
            while not main.done():
                try:
                    loop.run_until_complete(main)
                except (SystemExit, KeyboardInterrupt) as error:
                    # Of a task that a handler started: asyncio lets these two through.
                    log.error("a handler's task raised %r: ignored", error)
            code, is_clean = main.result()
            if not is_clean:
                # Threads and tasks that would not end are not waited for a second time.
                tracing.shutdown()
                logging.shutdown()
                os._exit(code)
        return code

    def request_stop(self) -> None:
        """Stop in an orderly way, as on SIGTERM; from any thread."""
        self._to_mesh.call(self._stop_service)

    def _stop_service(self) -> None:
        assert self._service is not None  # made before the handoff has a loop
        self._service.request_stop()

    async def _main(self) -> tuple[int, bool]:
        """Of the main thread: run handlers until the mesh thread is done."""
        loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        watchdog = Watchdog()
        await watchdog.start()
        self._executor.start()
        mesh = MeshThread(
            self._mesh_main, lambda code: loop.call_soon_threadsafe(self._over.set_result, code)
        )
        mesh.start()
        idle = loop.create_task(self._end_idle_processes(), name="idle-processes")
        code = await self._over
        idle.cancel()
        await asyncio.to_thread(self._workers.close)
        is_clean = await self._executor.close(CLOSE_SECONDS)
        await watchdog.stop()
        mesh.join()
        return code, is_clean

    async def _end_idle_processes(self) -> None:
        while True:
            await asyncio.sleep(IDLE_SECONDS / 2)
            await asyncio.to_thread(self._workers.end_idle)

    async def _mesh_main(self) -> int:
        """Of the mesh thread: be attached until told to stop."""
        loop = asyncio.get_running_loop()
        executor = ExecutorPort(self._executor.inbox, self._executor)
        self._supervision.bind(loop, executor)
        self._service = Service(
            NAME,
            lambda service: self._parts(service, executor),
            stop_timeout_seconds=self._config.drain_grace_seconds + 30.0,
            handle_signals=False,
        )
        self._to_mesh.bind(loop)
        return await self._service.run()

    def _parts(self, service: Service, executor: ExecutorPort) -> Sequence[Part]:
        config = self._config
        session = Session(
            config.dispatchers,
            self._hello(),
            self._claims,
            self._outbox,
            self._supervision,
            self._telemetry,
        )
        self._to_mesh.settled = session.wake
        capacity = CapacityTeller(session, Prefetch(config.prefetch))
        self._supervision.on_ended = capacity.ended
        readiness = Readiness()
        readiness.add("dispatcher", session.check)
        server = GrpcServer(config.host, config.port, (), drain_seconds=0.0, grace_seconds=1.0)
        self._telemetry.watch(self._executor, self._claims, capacity, self._outbox)
        drain = Drain(
            session,
            capacity,
            self._supervision,
            self._claims,
            server,
            readiness,
            config.drain_grace_seconds,
        )
        http = HealthHttp(config.host, config.http_port, readiness)
        guard = LoopGuard(executor, self._supervision, capacity, _fail(service))
        parts = http, server, session, capacity, guard, drain
        declared = load_schedules(config.app)
        if any(declared.values()):
            return *parts, Registration(config.address, declared)
        return parts

    def _hello(self) -> Hello:
        from jobmesh import __version__

        config = self._config
        return Hello(
            runner_id=config.name,
            namespace=config.namespace,
            types=sorted(self._tasks),
            queues=config.queues,
            slots=config.slots,
            version=__version__,
        )

    def _handle_signals(self) -> None:
        # Not loop.add_signal_handler, which needs the loop to turn: a handler may be blocking it.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 1:
            os._exit(128 + number)
        self.request_stop()


def _fail(service: Service) -> Callable[[Exception], None]:
    return lambda error: service.fail("the handlers' loop", error)
