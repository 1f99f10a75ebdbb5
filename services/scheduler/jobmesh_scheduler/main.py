"""The scheduler's process: its parts, in the order in which they start."""

from __future__ import annotations

from collections.abc import Sequence

from jobmesh.ids import new_id
from jobmesh.server.grpc_server import GrpcServer
from jobmesh.server.health_http import HealthHttp
from jobmesh.server.lifecycle import Part, run_forever
from jobmesh.server.readiness import Readiness
from jobmesh.server.watchdog import Watchdog
from jobmesh.v1.scheduler_service_pb2_grpc import add_SchedulerServiceServicer_to_server
from jobmesh_scheduler.config import SchedulerConfig
from jobmesh_scheduler.desk import Desk
from jobmesh_scheduler.leader import Leader
from jobmesh_scheduler.schedule_service import FULL_NAME, SchedulerService

NAME = "scheduler"


def run(config: SchedulerConfig) -> int:
    """Run until SIGTERM or SIGINT; the exit code."""
    return run_forever(lambda _: parts(config), name=NAME)


def parts(config: SchedulerConfig) -> Sequence[Part]:
    """What the process is made of. The leader is the last to start and the first to stop."""
    holder = new_id()
    desk = Desk(config)
    leader = Leader(config, holder, desk)
    readiness = Readiness()
    readiness.add("postgresql", leader.check_database)
    service = SchedulerService(desk, holder)
    return (
        Watchdog(),
        HealthHttp(config.host, config.http_port, readiness),
        desk,
        GrpcServer(
            config.host,
            config.port,
            ((add_SchedulerServiceServicer_to_server, service, FULL_NAME),),
            readiness=readiness,
        ),
        leader,
    )
