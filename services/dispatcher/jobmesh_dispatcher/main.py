"""The dispatcher's process: its parts, in the order in which they start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from jobmesh_dispatcher.database import FRESH_PLANS, KEPT_PLANS, Database
from jobmesh_dispatcher.depth_metrics import DepthMetrics
from jobmesh_dispatcher.dispatch_loop import DispatchLoop
from jobmesh_dispatcher.dispatch_service import DispatchService
from jobmesh_dispatcher.events import Events
from jobmesh_dispatcher.intake import Intake
from jobmesh_dispatcher.nudges import Nudges
from jobmesh_dispatcher.publisher import Publisher
from jobmesh_dispatcher.pulls import Pulled, Pulls, PullSettings
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
DISPATCH_SERVICE = "jobmesh.v1.DispatchService"
RUNNER_SERVICE = "jobmesh.v1.RunnerService"


def run(config: DispatcherConfig) -> int:
    """Run until SIGTERM or SIGINT; the exit code."""
    failpoints.arm()
    return run_forever(lambda _: parts(config), name=NAME)


def parts(config: DispatcherConfig) -> Sequence[Part]:
    """What the process is made of. The server is the last to work and the first to stop."""
    return Dispatcher(config).parts()


class Dispatcher:
    """One dispatcher, put together; `parts` start in order and stop in reverse."""

    def __init__(self, config: DispatcherConfig) -> None:
        self._config = config
        self._id = new_id()
        # Three pools, so that lists and repairs make nobody else wait for a connection, and calls
        # about jobs no claim and no report.
        self.database = self._pool(config.postgres_pool_size, KEPT_PLANS)
        self.calls = self._pool(config.postgres_calls, KEPT_PLANS)
        self.lookups = self._pool(config.postgres_lookups, FRESH_PLANS)
        self.broker = Broker(config.nats_url, replicas=config.nats_replicas)
        self.publisher = Publisher(self.broker, self.database)
        self.events, self.nudges = Events(self.broker), Nudges(self.broker)
        self.after_commit = AfterCommit(self.publisher, self.events, self.nudges)
        self.queues = QueueCache(self.lookups, self.nudges)
        self._lead_jobs_to_runners()
        self._serve()

    def _pool(self, size: int, plans: Mapping[str, str]) -> Database:
        cache = self._config.postgres_statement_cache
        return Database(
            self._config.postgres_dsn, size=size, statement_cache_size=cache, plans=plans
        )

    def _lead_jobs_to_runners(self) -> None:
        """What claims jobs, and records what becomes of them."""
        database, after_commit = self.database, self.after_commit
        self.roster = Roster()
        self.nudges.on_held = self.roster.hint_held
        self.sessions = Sessions(
            database,
            self.roster,
            after_commit,
            dispatcher_id=UUID(self._id),
            grace_seconds=self._config.session_grace_seconds,
        )
        claims = Claims(database, self.roster, after_commit)
        self.reports = Reports(database, after_commit, Succession(self.roster, claims))
        self.steps = Steps(database)
        self.loop = DispatchLoop(
            database,
            self.roster,
            claims,
            self._pulls,
            ack_wait_seconds=self._config.ack_wait_seconds,
        )
        self.queues.on_channels = self.loop.serve
        straight = Straight(self.roster, claims, self.loop.nothing_waits)
        self.intake = Intake(database, self.queues, after_commit, straight)

    def _pulls(self, on_message: Callable[[Pulled], None], on_end: Callable[[], None]) -> Pulls:
        settings = PullSettings(self._config.max_deliver, self._config.ack_wait_seconds)
        return Pulls(self.broker, settings, on_message, on_end)

    def _serve(self) -> None:
        """What others reach it by."""
        config, runners = self._config, self._runner_service()
        self.readiness = Readiness()
        self.readiness.add("postgresql", self.database.ping)
        self.server = GrpcServer(
            config.host,
            config.port,
            [
                (add_DispatchServiceServicer_to_server, self._dispatch_service(), DISPATCH_SERVICE),
                (add_RunnerServiceServicer_to_server, runners, RUNNER_SERVICE),
            ],
            readiness=self.readiness,
            on_drain=runners.drain,
        )
        self.runners = runners
        self.http = HealthHttp(config.host, config.http_port, self.readiness)

    def _runner_service(self) -> RunnerService:
        return RunnerService(
            self.roster,
            self.sessions,
            self.reports,
            self.steps,
            dispatcher_id=self._id,
            lease_seconds=self._config.session_lease_seconds,
            stream_seconds=self._config.runner_stream_seconds,
        )

    def _dispatch_service(self) -> DispatchService:
        return DispatchService(
            self.calls,
            self.lookups,
            self.intake,
            self.queues,
            self.roster,
            self.sessions,
            self.after_commit,
            dispatcher_id=self._id,
            reconciler=Reconciler(self.lookups, self.broker, self.publisher, self.after_commit),
        )

    def parts(self) -> Sequence[Part]:
        """What the process is made of, in the order in which it starts."""
        return (
            Watchdog(),
            self.database,
            self.calls,
            self.lookups,
            self.publisher,
            self.events,
            self.nudges,
            self.broker,
            self.queues,
            self.intake,
            self.reports,
            self.steps,
            DepthMetrics(self.lookups),
            self.sessions,
            self.loop,
            self.runners,
            self.http,
            self.server,
            Serving(self.server, self.readiness),
        )
