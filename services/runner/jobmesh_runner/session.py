"""The runner's session: one attachment after another, to whatever dispatcher can be had."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import grpc.aio

from jobmesh.ids import new_id
from jobmesh.server.channels import open_channel, resolve
from jobmesh.server.tasks import TaskOwner
from jobmesh.v1.runner_service_pb2 import Hello
from jobmesh.v1.runner_service_pb2_grpc import RunnerServiceStub
from jobmesh_runner.attachment import Attachment, End, EndReason
from jobmesh_runner.claims import Claims
from jobmesh_runner.inbound import Inbound
from jobmesh_runner.outbox import Outbox
from jobmesh_runner.reattach_pause import reattach_pause
from jobmesh_runner.supervision import Supervision
from jobmesh_runner.telemetry import Telemetry

if TYPE_CHECKING:
    from jobmesh.v1.runner_service_pb2_grpc import RunnerServiceAsyncStub

log = logging.getLogger(__name__)

REACH_SECONDS = 2.0
LEAVE_SECONDS = 5.0  # more than a dispatcher that gives no welcome is waited for
# A stream is not gRPC's to retry: `hello` would be said again with claims of long ago.
CHANNEL_OPTIONS = (("grpc.enable_retries", 0),)


class Session:
    """Keeps the runner attached. A part of the mesh thread.

    Its streams go through one balanced, health-checked channel: each new one to the next
    dispatcher in turn.

    :param hello: what the runner is, without session and claims.
    """

    def __init__(
        self,
        targets: Sequence[str],
        hello: Hello,
        claims: Claims,
        outbox: Outbox,
        supervision: Supervision,
        telemetry: Telemetry,
    ) -> None:
        self._targets = targets
        self._hello = hello
        self._claims = claims
        self._outbox = outbox
        self._supervision = supervision
        self._inbound = Inbound(supervision, outbox)
        self._telemetry = telemetry
        self._owner = TaskOwner()
        self._session_id = new_id()
        self._attachment: Attachment | None = None
        self._channel: grpc.aio.Channel | None = None
        self.is_attached = False
        self._stays = asyncio.Event()  # attached, and not about to move

    async def start(self) -> None:
        """Begin to attach; it goes on until it succeeds."""
        self._owner.spawn("session", self._run())

    async def stop(self) -> None:
        """Leave without a word, if :meth:`leave` was not called before."""
        await self._owner.stop()
        if self._attachment is not None:
            await self._attachment.close()
        if self._channel is not None:
            await self._channel.close(None)

    async def check(self) -> bool:
        """Whether a dispatcher has the runner, for readiness."""
        return self.is_attached

    def wake(self) -> None:
        """Something is to be sent."""
        if self._attachment is not None:
            self._attachment.wake()

    def tell_capacity(self, *, prefetch: int, draining: bool) -> None:
        """What the runner can take has changed."""
        self._hello.prefetch = prefetch
        self._hello.draining = draining
        self._outbox.set_capacity(self._hello.slots, prefetch, draining=draining)
        self.wake()

    async def leave(self) -> None:
        """End the session cleanly, after what is still to be sent.

        A runner that is being sent on takes its leave of the next dispatcher.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._stays.wait()
        await self._owner.stop()
        if self._attachment is not None and self.is_attached:
            await self._attachment.say_bye()

    async def _run(self) -> None:
        failures = 0
        while True:
            end = await self._attach()
            if end is None:
                failures = 0
                end = await self._stay()
            else:
                failures += 1
            if end.reason is EndReason.SESSION_ENDED:
                self._begin_anew(end)
            await asyncio.sleep(reattach_pause(failures, random.random()))

    async def _attach(self) -> End | None:
        """Move to a new stream; why not, if not."""
        problem, stub = await self._reach()
        if stub is None:
            self._note(End(EndReason.BROKEN, problem))
            return End(EndReason.BROKEN, problem)
        earlier = self._attachment
        candidate = Attachment(stub, self._inbound, self._outbox)
        try:
            end = await candidate.open(lambda: self._say_hello(earlier))
        except BaseException:
            await candidate.close()
            raise
        if end is not None:
            await candidate.close()
            self._note(end)
            return end
        self._attachment = candidate
        if earlier is not None:
            await earlier.close()
        self._welcomed(candidate)
        return None

    async def _reach(self) -> tuple[str, RunnerServiceAsyncStub | None]:
        """A stub on a channel that is connected, or what stands in the way."""
        try:
            if self._channel is None:
                targets = await resolve(self._targets)
                self._channel = open_channel(targets, options=CHANNEL_OPTIONS)
            async with asyncio.timeout(REACH_SECONDS):
                # Streams opened before would all land on the first dispatcher that is reached.
                await self._channel.channel_ready()
        except (OSError, TimeoutError) as error:
            return f"no dispatcher of {','.join(self._targets)} can be reached: {error!r}", None
        return "", RunnerServiceStub(self._channel)

    def _say_hello(self, earlier: Attachment | None) -> Hello:
        # From here on the earlier stream's assignments are not taken: the dispatcher compares the
        # claims named here with its own, and gives what is missing to others.
        if earlier is not None:
            earlier.retire()
        self.is_attached = False
        hello = Hello(session_id=self._session_id, held=self._claims.leases())
        hello.MergeFrom(self._hello)
        return hello

    def _welcomed(self, attachment: Attachment) -> None:
        self.is_attached = True
        self._stays.set()
        self._telemetry.attached()
        log.info(
            "attached to dispatcher %s with %d claims",
            attachment.welcome.dispatcher_id,
            len(self._claims),
        )

    async def _stay(self) -> End:
        assert self._attachment is not None
        end = await self._attachment.ended()
        self._stays.clear()
        self._note(end)
        if end.reason not in (EndReason.SILENT, EndReason.RECONNECT):
            # It is gone: nothing is gained by keeping it open.
            self.is_attached = False
            await self._attachment.close()
        return end

    def _begin_anew(self, end: End) -> None:
        """Someone else may run the jobs by now: stop them, and become another session."""
        log.warning("the session was ended with %d claims: %s", len(self._claims), end.detail)
        self._supervision.lose_all()
        self._session_id = new_id()

    def _note(self, end: End) -> None:
        self._telemetry.detached(end.reason.value)
        if end.reason is EndReason.RECONNECT:
            log.info("sent on to another dispatcher")
        else:
            log.warning("not attached: %s %s", end.reason.value, end.detail)
