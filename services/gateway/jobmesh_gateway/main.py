"""The gateway's process: its parts, in the order in which they start."""

from __future__ import annotations

from collections.abc import Sequence

from jobmesh.server import logs, tracing
from jobmesh.server.grpc_server import GrpcServer, ServiceEntry
from jobmesh.server.health_http import HealthHttp
from jobmesh.server.lifecycle import Part, Periodic, run_forever
from jobmesh.server.readiness import Readiness
from jobmesh.server.watchdog import Watchdog
from jobmesh.v1.job_service_pb2_grpc import add_JobServiceServicer_to_server
from jobmesh.v1.mesh_service_pb2 import Limits
from jobmesh.v1.mesh_service_pb2_grpc import add_MeshServiceServicer_to_server
from jobmesh.v1.queue_service_pb2_grpc import add_QueueServiceServicer_to_server
from jobmesh.v1.schedule_service_pb2_grpc import add_ScheduleServiceServicer_to_server
from jobmesh_gateway import cluster, jobs, queues, schedules
from jobmesh_gateway.config import GatewayConfig
from jobmesh_gateway.control import JobControl
from jobmesh_gateway.dispatchers import Dispatchers
from jobmesh_gateway.events import EventFeed
from jobmesh_gateway.fanout import Watchers
from jobmesh_gateway.listing import JobLists
from jobmesh_gateway.namespace import DEFAULT
from jobmesh_gateway.reader import JobReader
from jobmesh_gateway.schedulers import Schedulers
from jobmesh_gateway.submit import MAX_BATCH_BYTES, MAX_BATCH_JOBS, Submitter
from jobmesh_gateway.watching import Watching

NAME = "gateway"
TICK_SECONDS = 0.25
# These wait on purpose, for as long as their requests say.
DEADLINES = {f"/{jobs.FULL_NAME}/WaitJob": None}


def run(config: GatewayConfig) -> int:
    """Run until SIGTERM or SIGINT; the exit code."""
    logs.configure(NAME)
    tracing.configure(NAME)
    try:
        return run_forever(lambda _: Gateway(config).parts(), name=NAME)
    finally:
        tracing.shutdown()


class Gateway:
    """One gateway, put together; `parts` start in order and stop in reverse.

    ``drain_seconds``: how long clients get to notice that it stops.
    """

    def __init__(self, config: GatewayConfig, *, drain_seconds: float = 0.5) -> None:
        self.dispatchers = Dispatchers(config.dispatchers)
        self.schedulers = Schedulers(config.schedulers)
        self.submitter = Submitter(self.dispatchers, DEFAULT, config.payload_limit_bytes)
        self.reader = JobReader(self.dispatchers, DEFAULT)
        self.watchers = Watchers(config.max_watches)
        self.feed = EventFeed(config.nats_url, self.watchers)
        self.ticks = Periodic("watch-ticks", TICK_SECONDS, self.watchers.tick)
        self.readiness = Readiness()
        self.readiness.add("dispatcher", self.dispatchers.check)
        self.http = HealthHttp(config.host, config.http_port, self.readiness)
        self.server = GrpcServer(
            config.host,
            config.port,
            self._services(config),
            readiness=self.readiness,
            on_drain=self.watchers.drain,
            deadlines=DEADLINES,
            drain_seconds=drain_seconds,
        )

    def parts(self) -> Sequence[Part]:
        """What the process is made of. The server is the last to start and the first to stop."""
        return (
            Watchdog(),
            self.http,
            self.dispatchers,
            self.schedulers,
            self.reader,
            self.submitter,
            self.feed,
            self.ticks,
            self.server,
        )

    def _services(self, config: GatewayConfig) -> Sequence[ServiceEntry]:
        watching = Watching(self.reader, self.feed, self.watchers)
        job_service = jobs.JobServicer(
            self.submitter,
            self.reader,
            JobLists(self.dispatchers, DEFAULT),
            JobControl(self.dispatchers, DEFAULT, config.payload_limit_bytes),
            watching,
        )
        schedule_service = schedules.ScheduleServicer(
            self.schedulers, DEFAULT, config.payload_limit_bytes
        )
        queue_service = queues.QueueServicer(self.dispatchers, DEFAULT)
        mesh_service = cluster.MeshServicer(self.dispatchers, self.schedulers, _limits(config))
        return (
            (add_JobServiceServicer_to_server, job_service, jobs.FULL_NAME),
            (add_QueueServiceServicer_to_server, queue_service, queues.FULL_NAME),
            (add_ScheduleServiceServicer_to_server, schedule_service, schedules.FULL_NAME),
            (add_MeshServiceServicer_to_server, mesh_service, cluster.FULL_NAME),
        )


def _limits(config: GatewayConfig) -> Limits:
    return Limits(
        payload_bytes=config.payload_limit_bytes,
        batch_jobs=MAX_BATCH_JOBS,
        batch_bytes=MAX_BATCH_BYTES,
        watches=config.max_watches,
    )
