"""One stream to one dispatcher: `hello`, then whatever either side has to say, until it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

import grpc
import grpc.aio

from jobmesh.errors import from_rpc_error
from jobmesh.server.tasks import TaskOwner
from jobmesh.v1.runner_service_pb2 import Bye, Hello, Ping, Welcome, WorkRequest, WorkResponse
from jobmesh_runner.inbound import Inbound, seconds_of
from jobmesh_runner.outbox import Outbox

if TYPE_CHECKING:
    from jobmesh.v1.runner_service_pb2_grpc import RunnerServiceAsyncStub

log = logging.getLogger(__name__)

WELCOME_TIMEOUT_SECONDS = 3.0
BYE_TIMEOUT_SECONDS = 3.0
SILENT_SHARE = 0.6
"""Of the lease: after so long without a pong another dispatcher is tried. Not the whole lease, or
the session would end just when it arrives there."""
SESSION_ENDED = "SESSION_ENDED"
LEAST_PING_INTERVAL = 0.05
EOF = grpc.aio.EOF  # type: ignore[attr-defined]  # grpc-stubs does not know it


class EndReason(Enum):
    """Why a stream ended."""

    BROKEN = "broken"
    RECONNECT = "reconnect"
    SILENT = "silent"
    SESSION_ENDED = "session_ended"
    CLOSED = "closed"


@dataclass(frozen=True)
class End:
    """That a stream ended."""

    reason: EndReason
    detail: str = ""


class Attachment:
    """See the module. The life of one: :meth:`open`, :meth:`ended`, :meth:`close`.

    Once it has ended, only pings are still sent by it: the rest is for the next dispatcher, while
    this one writes down what it has. Once it is retired, nothing that still comes by it is acted
    upon. The stream itself is left open, so that the dispatcher does not take the session for
    broken before another has it.
    """

    def __init__(self, stub: RunnerServiceAsyncStub, inbound: Inbound, outbox: Outbox) -> None:
        self._stub = stub
        self._inbound = inbound
        self._outbox = outbox
        self._owner = TaskOwner(on_failure=self._failed)
        self._wake = asyncio.Event()
        self._end: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._read_all = asyncio.Event()
        self._call: Any = None
        self._retired = False
        self._saying_bye = False
        self._ping: Ping | None = None
        self._pinged = 0
        self._alive_at = 0.0
        self.welcome = Welcome()

    async def open(self, hello: Callable[[], Hello]) -> End | None:
        """Say hello and be welcomed; why not, if not.

        :param hello: made at the last moment, after which no earlier stream counts.
        """
        self._call = cast(Any, self._stub).Work()  # its type wants an iterator
        try:
            async with asyncio.timeout(WELCOME_TIMEOUT_SECONDS):
                await self._call.write(WorkRequest(hello=hello()))
                first = await self._call.read()
        except TimeoutError:
            return End(EndReason.SILENT, "no welcome")
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            return await self._explain(error)
        if first is EOF or first.WhichOneof("message") != "welcome":
            return await self._explain(None)
        self.welcome = first.welcome
        self._begin()
        return None

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._alive_at = loop.time()
        self._outbox.rewind(self._alive_at)
        self._owner.spawn("attachment-read", self._read())
        self._owner.spawn("attachment-write", self._write())
        self._owner.spawn("attachment-ping", self._keep_alive())

    async def ended(self) -> End:
        """Why it ended, once it has."""
        return await asyncio.shield(self._end)

    def wake(self) -> None:
        """There is something to send."""
        self._wake.set()

    def retire(self) -> None:
        """Act no more upon what comes, and send nothing more."""
        self._retired = True
        self._finish(End(EndReason.CLOSED))
        self._wake.set()

    async def say_bye(self) -> None:
        """Send what is left, then end the session; returns once the dispatcher has heard it.

        Also by a stream that was to be replaced.
        """
        self._saying_bye = True
        self._wake.set()
        try:
            async with asyncio.timeout(BYE_TIMEOUT_SECONDS):
                await self._read_all.wait()
        except TimeoutError:
            log.warning("the dispatcher did not answer the runner's bye")

    async def close(self) -> None:
        """End the stream; safe in any state."""
        self._retired = True
        self._finish(End(EndReason.CLOSED))
        self._wake.set()
        if self._call is not None:
            self._call.cancel()
        await self._owner.stop()

    def _finish(self, end: End) -> None:
        if not self._end.done():
            self._end.set_result(end)

    def _failed(self, task: str, error: BaseException) -> None:
        self._finish(End(EndReason.BROKEN, f"{task}: {error!r}"))

    async def _read(self) -> None:
        try:
            while (response := await self._call.read()) is not EOF:
                if not self._retired:
                    self._handle(response)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            self._finish(await self._explain(error))
        else:
            self._finish(await self._explain(None))
        finally:
            self._read_all.set()

    def _handle(self, response: WorkResponse) -> None:
        kind = response.WhichOneof("message")
        if kind == "pong":
            self._alive_at = asyncio.get_running_loop().time()
        elif kind == "reconnect":
            self._finish(End(EndReason.RECONNECT))
        else:
            self._inbound.handle(response)
            # An answer may let more be sent, a claim given back at once is to be told.
            self._wake.set()

    async def _write(self) -> None:
        """Whatever gathered while the last write was in flight goes into the next one."""
        loop = asyncio.get_running_loop()
        try:
            while not self._retired:
                self._wake.clear()
                requests = self._next_requests(loop.time())
                for request in requests:
                    await self._call.write(request)
                if not requests:
                    if self._saying_bye:
                        await self._call.write(WorkRequest(bye=Bye()))
                        await self._call.done_writing()
                        return
                    await self._wait(loop)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # the reader learns why

    @property
    def _holds_back(self) -> bool:
        return self._end.done() and not self._saying_bye

    async def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        due = None if self._holds_back else self._outbox.next_due()
        alarm = None if due is None else loop.call_at(due, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if alarm is not None:
                alarm.cancel()

    def _next_requests(self, now: float) -> list[WorkRequest]:
        requests = [] if self._holds_back else self._outbox.take(now)
        ping, self._ping = self._ping, None
        if ping is not None:
            requests.insert(0, WorkRequest(ping=ping))
        return requests

    async def _keep_alive(self) -> None:
        """Ping; and leave a dispatcher that does not answer, or cannot renew the lease."""
        loop = asyncio.get_running_loop()
        interval = max(seconds_of(self.welcome.ping_interval), LEAST_PING_INTERVAL)
        patience = max(seconds_of(self.welcome.lease) * SILENT_SHARE, 2 * interval)
        while not self._retired:
            self._pinged += 1
            self._ping = Ping(sequence=self._pinged)
            self._wake.set()
            await asyncio.sleep(interval)
            silence = loop.time() - self._alive_at
            if silence > patience:
                self._finish(End(EndReason.SILENT, f"no pong for {silence:.1f} s"))
                return

    async def _explain(self, error: BaseException | None) -> End:
        """Why the dispatcher, or the network, ended the stream."""
        if isinstance(error, grpc.aio.AioRpcError):
            known = from_rpc_error(error)
            if known.reason == SESSION_ENDED:
                return End(EndReason.SESSION_ENDED, known.message)
            return End(EndReason.BROKEN, f"{known.code.name}: {known.message}")
        if self._saying_bye:
            return End(EndReason.CLOSED)
        return End(EndReason.BROKEN, repr(error) if error else "it ended without a reason")
