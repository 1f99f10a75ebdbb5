"""Parts of dispatchers that share a database, as many as a test wants, without streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from jobmesh.v1 import runner_service_pb2 as pb
from jobmesh_dispatcher.after_commit import AfterCommit
from jobmesh_dispatcher.broker import Broker
from jobmesh_dispatcher.claims import Claims
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.events import Events
from jobmesh_dispatcher.lease import Lease
from jobmesh_dispatcher.nudges import Nudges
from jobmesh_dispatcher.publisher import Publisher
from jobmesh_dispatcher.reports import Reports
from jobmesh_dispatcher.roster import Roster
from jobmesh_dispatcher.sessions import Sessions
from jobmesh_dispatcher.straight import Straight
from jobmesh_dispatcher.succession import Succession
from tests.support import decisions as d


@dataclass
class Dispatcher:
    """What of a dispatcher has to do with runners. Its broker is not there."""

    roster: Roster
    sessions: Sessions
    reports: Reports
    after_commit: AfterCommit
    straight: Straight


@asynccontextmanager
async def dispatcher(database: Database, *, grace_seconds: float = 60) -> AsyncIterator[Dispatcher]:
    """Another dispatcher of the database; its periodic work is called by the test alone."""
    broker = Broker("nats://127.0.0.1:1")
    after_commit = AfterCommit(Publisher(broker, database), Events(broker), Nudges(broker))
    roster = Roster()
    sessions = Sessions(
        database, roster, after_commit, dispatcher_id=d.uid(), grace_seconds=grace_seconds
    )
    claims = Claims(database, roster, after_commit)
    reports = Reports(database, after_commit, Succession(roster, claims))
    straight = Straight(roster, claims, lambda: True)
    await reports.start()
    try:
        yield Dispatcher(roster, sessions, reports, after_commit, straight)
    finally:
        await reports.stop()
        await sessions.stop()


def hello(*, session_id: str = "", held: Sequence[Lease] = (), slots: int = 4) -> pb.Hello:
    """What a runner of jobs of type `t` says, a new one by default."""
    claims = [pb.Lease(job_id=str(lease.job_id), attempt=lease.attempt) for lease in held]
    return pb.Hello(
        runner_id="runner",
        session_id=session_id or str(d.uid()),
        types=["t"],
        slots=slots,
        held=claims,
    )
