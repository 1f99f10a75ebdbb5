"""The dispatcher's process: its parts, in the order in which they start."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from jobmesh.ids import new_id
from jobmesh.server.grpc_server import GrpcServer
from jobmesh.server.health_http import HealthHttp
from jobmesh.server.lifecycle import Part, run_forever
from jobmesh.server.readiness import Readiness
from jobmesh.server.serving import Serving
from jobmesh.server.watchdog import Watchdog
from jobmesh.v1.dispatch_service_pb2_grpc import add_DispatchServiceServicer_to_server
from jobmesh.v1.runner_service_pb2_grpc import add_RunnerServiceServicer_to_server
from jobmesh_dispatcher import failpoints
from jobmesh_dispatcher.after_commit import AfterCommit
from jobmesh_dispatcher.broker import Broker
from jobmesh_dispatcher.claims import Claims
from jobmesh_dispatcher.config import DispatcherConfig
from jobmesh_dispatcher.database import KEPT_PLANS, Database
from jobmesh_dispatcher.depth_metrics import DepthMetrics
from jobmesh_dispatcher.dispatch_loop import DispatchLoop
from jobmesh_dispatcher.dispatch_service import DispatchService
from jobmesh_dispatcher.events import Events
from jobmesh_dispatcher.intake import Intake
from jobmesh_dispatcher.nudges import Nudges
from jobmesh_dispatcher.publisher import Publisher
from jobmesh_dispatcher.pulls import Pulls, PullSettings
from jobmesh_dispatcher.queue_cache import QueueCache
from jobmesh_dispatcher.reconciler import Reconciler
from jobmesh_dispatcher.reports import Reports
from jobmesh_dispatcher.roster import Roster
from jobmesh_dispatcher.runner_service import RunnerService
from jobmesh_dispatcher.sessions import Sessions
from jobmesh_dispatcher.steps import Steps
from jobmesh_dispatcher.straight import Straight
from jobmesh_dispatcher.succession import Succession

NAME = "dispatcher"


def run(config: DispatcherConfig) -> int:
    """Run until SIGTERM or SIGINT; the exit code."""
    failpoints.arm()
    return run_forever(lambda _: parts(config), name=NAME)


def parts(config: DispatcherConfig) -> Sequence[Part]:
    """What the process is made of. The server is the last to work and the first to stop."""
    dispatcher_id = new_id()
    # Two pools, so that lists and repairs never make a claim or a report wait for a connection.
    cache = config.postgres_statement_cache
    database = Database(
        config.postgres_dsn,
        size=config.postgres_pool_size,
        statement_cache_size=cache,
        plans=KEPT_PLANS,
    )
    lookups = Database(
        config.postgres_dsn, size=config.postgres_lookups, statement_cache_size=cache
    )
    broker = Broker(config.nats_url, replicas=config.nats_replicas)
    publisher = Publisher(broker, database)
    events, nudges = Events(broker), Nudges(broker)
    after_commit = AfterCommit(publisher, events, nudges)
    roster = Roster()
    nudges.on_held = roster.hint_held
    queues = QueueCache(lookups, nudges)
    claims = Claims(database, roster, after_commit)
    reports = Reports(database, after_commit, Succession(roster, claims))
    steps = Steps(database)
    sessions = Sessions(
        database,
        roster,
        after_commit,
        dispatcher_id=UUID(dispatcher_id),
        grace_seconds=config.session_grace_seconds,
    )
    pulling = PullSettings(config.max_deliver, config.ack_wait_seconds)
    loop = DispatchLoop(
        database,
        roster,
        claims,
        lambda on_message, on_end: Pulls(broker, pulling, on_message, on_end),
        ack_wait_seconds=config.ack_wait_seconds,
    )
    queues.on_channels = loop.serve
    intake = Intake(database, queues, after_commit, Straight(roster, claims, loop.nothing_waits))
    runners = RunnerService(
        roster,
        sessions,
        reports,
        steps,
        dispatcher_id=dispatcher_id,
        lease_seconds=config.session_lease_seconds,
    )
    dispatch = DispatchService(
        lookups,
        intake,
        queues,
        roster,
        sessions,
        after_commit,
        dispatcher_id=dispatcher_id,
        reconciler=Reconciler(lookups, broker, publisher, after_commit),
    )
    readiness = Readiness()
    readiness.add("postgresql", database.ping)
    server = GrpcServer(
        config.host,
        config.port,
        [
            (add_DispatchServiceServicer_to_server, dispatch, "jobmesh.v1.DispatchService"),
            (add_RunnerServiceServicer_to_server, runners, "jobmesh.v1.RunnerService"),
        ],
        readiness=readiness,
        on_drain=runners.drain,
    )
    http = HealthHttp(config.host, config.http_port, readiness)
    storing = (
        database,
        lookups,
        publisher,
        events,
        nudges,
        broker,
        queues,
        intake,
        reports,
        steps,
        DepthMetrics(lookups),
    )
    serving = Serving(server, readiness)
    return (Watchdog(), *storing, sessions, loop, runners, http, server, serving)
