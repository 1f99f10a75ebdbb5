"""The scheduler's process: its parts, in the order in which they start."""

from __future__ import annotations

from collections.abc import Sequence

from jobmesh.ids import new_id
from jobmesh.server.grpc_server import GrpcServer
from jobmesh.server.health_http import HealthHttp
from jobmesh.server.lifecycle import Part, run_forever
from jobmesh.server.readiness import Readiness
from jobmesh.server.watchdog import Watchdog
from jobmesh_scheduler.config import SchedulerConfig
from jobmesh_scheduler.leader import Leader

NAME = "scheduler"


def run(config: SchedulerConfig) -> int:
    """Run until SIGTERM or SIGINT; the exit code."""
    return run_forever(lambda _: parts(config), name=NAME)


def parts(config: SchedulerConfig) -> Sequence[Part]:
    """What the process is made of. The leader is the last to start and the first to stop."""
    leader = Leader(config, holder=new_id())
    readiness = Readiness()
    readiness.add("postgresql", leader.check_database)
    return (
        Watchdog(),
        HealthHttp(config.host, config.http_port, readiness),
        # No calls to finish and no streams to end: clients only ask for its health.
        GrpcServer(
            config.host,
            config.port,
            (),
            readiness=readiness,
            drain_seconds=0.0,
            grace_seconds=1.0,
        ),
        leader,
    )
