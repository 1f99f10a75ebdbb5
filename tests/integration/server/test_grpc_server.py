"""One server, real calls: errors, deadlines, cancellation, health, reflection and a clean stop."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from jobmesh.channels import MAX_MESSAGE_BYTES, open_channel
from jobmesh.errors import (
    BackendUnavailable,
    DeadlineExceeded,
    Internal,
    InvalidField,
    JobmeshError,
    LeaseLost,
    Unavailable,
    from_rpc_error,
)
from jobmesh.server import metrics
from jobmesh.server.grpc_server import GrpcServer, PortTaken
from jobmesh.server.readiness import Readiness
from jobmesh.v1 import job_pb2, job_service_pb2
from tests.support.wait import until

NAME = "test.v1.Behaviours"
BIN = Path(sys.executable).parent
Context = grpc.aio.ServicerContext[bytes, bytes]


class Behaviours(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Handlers that behave as a test wants, by method name."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.release = asyncio.Event()
        self.ended: list[str] = []
        self.behind = "127.0.0.1:1"

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        name = handler_call_details.method.rpartition("/")[2]
        behavior = getattr(self, name, None)
        if behavior is None:
            return None
        if name.startswith("stream"):
            return grpc.unary_stream_rpc_method_handler(behavior)
        if name.startswith("bidi"):
            return grpc.stream_stream_rpc_method_handler(behavior)
        return grpc.unary_unary_rpc_method_handler(behavior)

    async def echo(self, request: bytes, context: Context) -> bytes:
        return request

    async def remaining(self, request: bytes, context: Context) -> bytes:
        return repr(context.time_remaining()).encode()

    async def refuse(self, request: bytes, context: Context) -> bytes:
        raise InvalidField("job.type", "is empty")

    async def crash(self, request: bytes, context: Context) -> bytes:
        raise KeyError("hunter2")

    async def abort(self, request: bytes, context: Context) -> bytes:
        await context.abort(grpc.StatusCode.OUT_OF_RANGE, "too far")

    async def hang(self, request: bytes, context: Context) -> bytes:
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.02)
            self.ended.append("hang")
        return b""

    async def wait(self, request: bytes, context: Context) -> bytes:
        self.entered.set()
        await self.release.wait()
        return b"done"

    async def interrupted(self, request: bytes, context: Context) -> bytes:
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()
        await inner
        return b""

    async def own_timeout(self, request: bytes, context: Context) -> bytes:
        raise TimeoutError("of something inside")

    async def ask_behind(self, request: bytes, context: Context) -> bytes:
        async with grpc.aio.insecure_channel(self.behind) as channel:
            ask = channel.unary_unary(f"/{NAME}/refuse", None, None)
            answer: bytes = await ask(b"", timeout=5)
            return answer

    async def stream_then_fail(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        yield b"1"
        yield b"2"
        raise LeaseLost("j", 1)

    async def stream_forever(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 1000
                self.entered.set()
                await asyncio.sleep(0)
        finally:
            self.ended.append("stream_forever")

    async def stream_by_writing(self, request: bytes, context: Context) -> None:
        await context.write(b"1")
        raise LeaseLost("j", 2)

    async def bidi_echo(
        self, requests: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator[bytes]:
        try:
            async for request in requests:
                yield request
        finally:
            self.ended.append("bidi_echo")


def add(servicer: Behaviours, server: grpc.aio.Server) -> None:
    server.add_generic_rpc_handlers((servicer,))


class Serving:
    def __init__(self, server: GrpcServer, handlers: Behaviours, channel: grpc.aio.Channel) -> None:
        self.server = server
        self.handlers = handlers
        self.channel = channel

    async def call(self, method: str, request: bytes = b"", timeout: float | None = 10) -> bytes:
        call = self.channel.unary_unary(f"/{NAME}/{method}", None, None)
        answer: bytes = await call(request, timeout=timeout)
        return answer

    async def failure(self, method: str, timeout: float | None = 10) -> JobmeshError:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.call(method, timeout=timeout)
        return from_rpc_error(caught.value)

    def stream(self, method: str) -> grpc.aio.UnaryStreamCall[bytes, bytes]:
        return self.channel.unary_stream(f"/{NAME}/{method}", None, None)(b"", timeout=20)


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Serving]:
    handlers = Behaviours()
    server = GrpcServer(
        "127.0.0.1",
        0,
        [(add, handlers, NAME)],
        **({"drain_seconds": 0.05, "grace_seconds": 0.2} | options),
    )
    await server.start()
    try:
        async with open_channel(server.address, NAME) as channel:
            yield Serving(server, handlers, channel)
    finally:
        await server.stop()
        await server.stop()


def counted(method: str, code: str) -> float:
    value = metrics.REGISTRY.get_sample_value(
        "jobmesh_grpc_requests_total", {"method": f"/{NAME}/{method}", "code": code}
    )
    return value or 0.0


async def test_calls_are_answered_and_counted() -> None:
    before = counted("echo", "OK")
    async with serving() as mesh:
        assert await mesh.call("echo", b"hi") == b"hi"
    assert counted("echo", "OK") == before + 1
    labels = {"method": f"/{NAME}/echo"}
    assert metrics.REGISTRY.get_sample_value("jobmesh_grpc_in_flight", labels) == 0


async def test_a_jobmesh_error_arrives_with_its_details() -> None:
    async with serving() as mesh:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await mesh.call("refuse")
    error = from_rpc_error(caught.value)
    assert isinstance(error, InvalidField)
    assert error.field == "job.type"
    # And with the standard library for it, as clients in other languages read it.
    status = rpc_status.from_call(caught.value)  # type: ignore[arg-type]
    assert status is not None
    assert len(status.details) == 2


async def test_a_defect_is_logged_under_an_id_and_tells_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = counted("crash", "INTERNAL")
    async with serving() as mesh:
        error = await mesh.failure("crash")
    assert isinstance(error, Internal)
    assert "hunter2" not in str(error)
    assert error.metadata["error_id"] in caplog.text
    assert "hunter2" in caplog.text
    assert counted("crash", "INTERNAL") == before + 1


async def test_a_handlers_own_abort_is_left_alone() -> None:
    before = counted("abort", "OUT_OF_RANGE")
    async with serving() as mesh:
        error = await mesh.failure("abort")
    assert (error.code, error.message) == (grpc.StatusCode.OUT_OF_RANGE, "too far")
    assert counted("abort", "OUT_OF_RANGE") == before + 1


async def test_an_inner_cancellation_asks_the_client_to_retry_elsewhere() -> None:
    async with serving() as mesh:
        assert type(await mesh.failure("interrupted")) is Unavailable


async def test_a_time_out_inside_is_not_taken_for_the_deadline() -> None:
    async with serving() as mesh:
        assert isinstance(await mesh.failure("own_timeout", timeout=None), Internal)


async def test_a_call_without_a_deadline_gets_one() -> None:
    async with serving(default_deadline_seconds=0.05) as mesh:
        error = await mesh.failure("hang", timeout=None)
        assert isinstance(error, DeadlineExceeded)
        assert error.from_jobmesh
        assert mesh.handlers.ended == ["hang"]
        assert await mesh.call("remaining", timeout=None) == b"None"


async def test_a_methods_own_limit_replaces_the_default() -> None:
    limits = {f"/{NAME}/wait": None}
    async with serving(default_deadline_seconds=0.01, deadlines=limits) as mesh:
        waiting = asyncio.create_task(mesh.call("wait", timeout=None))
        await mesh.handlers.entered.wait()
        assert isinstance(await mesh.failure("hang", timeout=None), DeadlineExceeded)
        assert not waiting.done()
        mesh.handlers.release.set()
        assert await waiting == b"done"


async def test_a_client_that_leaves_stops_the_handler() -> None:
    before = counted("hang", "CANCELLED")
    async with serving() as mesh:
        calling = asyncio.create_task(mesh.call("hang"))
        await mesh.handlers.entered.wait()
        calling.cancel()
        await until(lambda: mesh.handlers.ended == ["hang"], 5, "the handler ended")
        await asyncio.wait({calling})
    assert counted("hang", "CANCELLED") == before + 1


async def test_a_stream_that_fails_sends_its_error_after_its_items() -> None:
    async with serving() as mesh:
        for method, items in (("stream_then_fail", [b"1", b"2"]), ("stream_by_writing", [b"1"])):
            call = mesh.stream(method)
            assert [await call.read() for _ in items] == items
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
            assert isinstance(from_rpc_error(caught.value), LeaseLost)


async def test_a_watcher_that_leaves_runs_the_streams_cleanup_at_once() -> None:
    async with serving() as mesh:
        call = mesh.stream("stream_forever")
        await mesh.handlers.entered.wait()
        call.cancel()
        await until(lambda: mesh.handlers.ended == ["stream_forever"], 5, "the stream ended")


async def test_a_watcher_that_never_reads_is_cleaned_up_when_it_goes() -> None:
    """The handler is then suspended in a `yield`, not in an await of its own."""
    async with serving() as mesh:
        call = mesh.stream("stream_forever")
        await mesh.handlers.entered.wait()
        await until(lambda: counted("stream_forever", "OK") == 0, 1)
        await asyncio.sleep(0.3)  # lets the buffers fill; the assertion holds without it
        call.cancel()
        await until(lambda: mesh.handlers.ended == ["stream_forever"], 5, "the stream ended")


async def test_bidirectional_streams_work_and_end() -> None:
    async with serving() as mesh:
        open_stream = mesh.channel.stream_stream(f"/{NAME}/bidi_echo", None, None)
        call = open_stream(None, timeout=10)
        await call.write(b"a")
        assert await call.read() == b"a"
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF  # type: ignore[attr-defined]
        assert mesh.handlers.ended == ["bidi_echo"]


async def test_errors_of_a_service_behind_pass_through_but_its_address_does_not() -> None:
    async with serving() as behind, serving() as mesh:
        mesh.handlers.behind = behind.server.address
        assert isinstance(await mesh.failure("ask_behind"), InvalidField)
        mesh.handlers.behind = "127.0.0.1:1"
        error = await mesh.failure("ask_behind")
    assert type(error) is Unavailable
    assert "127.0.0.1" not in error.message


async def test_sixteen_mebibytes_pass() -> None:
    async with serving() as mesh:
        body = b"x" * (MAX_MESSAGE_BYTES - 100)
        assert await mesh.call("echo", body) == body


async def test_an_unknown_method_is_unimplemented() -> None:
    async with serving() as mesh:
        assert (await mesh.failure("absent")).code is grpc.StatusCode.UNIMPLEMENTED


async def test_credentials_make_it_a_secure_port() -> None:
    local = grpc.LocalConnectionType.LOCAL_TCP
    handlers = Behaviours()
    server = GrpcServer(
        "127.0.0.1",
        0,
        [(add, handlers, NAME)],
        credentials=grpc.local_server_credentials(local),
        drain_seconds=0,
    )
    await server.start()
    credentials = grpc.local_channel_credentials(local)
    try:
        async with open_channel(server.address, NAME, credentials=credentials) as channel:
            call = channel.unary_unary(f"/{NAME}/echo", None, None)
            assert await call(b"x", timeout=10, wait_for_ready=True) == b"x"
    finally:
        await server.stop()


async def test_a_taken_port_is_a_clear_error() -> None:
    async with serving() as mesh:
        other = GrpcServer("127.0.0.1", mesh.server.port, [])
        with pytest.raises(PortTaken, match=f"{mesh.server.address}: Address already in use"):
            await other.start()
        await other.stop()


async def test_a_server_never_started_can_be_stopped() -> None:
    await GrpcServer("127.0.0.1", 0, []).stop()


@asynccontextmanager
async def health_of(mesh: Serving) -> AsyncIterator[health_pb2_grpc.HealthStub]:
    async with grpc.aio.insecure_channel(mesh.server.address) as channel:
        yield health_pb2_grpc.HealthStub(channel)  # type: ignore[no-untyped-call]


async def test_health_knows_the_process_and_each_service() -> None:
    async with serving() as mesh, health_of(mesh) as health:
        for name in ("", NAME):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health.Check(health_pb2.HealthCheckRequest(service="x"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_health_tells_watchers_of_changes_and_ends_with_the_server() -> None:
    async with serving() as mesh, health_of(mesh) as health:
        watch = health.Watch(health_pb2.HealthCheckRequest(service=NAME))
        states = [(await watch.read()).status]
        mesh.server.set_serving(False)
        states.append((await watch.read()).status)
        mesh.server.set_serving(True)
        states.append((await watch.read()).status)
        unknown = health.Watch(health_pb2.HealthCheckRequest(service="x"))
        states.append((await unknown.read()).status)
        await mesh.server.begin_drain()
        mesh.server.set_serving(True)  # too late
        states.append((await watch.read()).status)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await watch.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    response = health_pb2.HealthCheckResponse
    assert states == [
        response.SERVING,
        response.NOT_SERVING,
        response.SERVING,
        response.SERVICE_UNKNOWN,
        response.NOT_SERVING,
    ]


async def test_the_stop_sends_clients_away_then_ends_streams_then_waits_for_calls() -> None:
    order: list[str] = []

    async def on_drain() -> None:
        order.append("on_drain")
        assert not (await readiness.report()).ready
        # By a channel that does not ask for health: the one of a client that has not noticed yet.
        async with open_channel(mesh.server.address, health_check=False) as late:
            call = late.unary_unary(f"/{NAME}/echo", None, None)
            assert await call(b"still", timeout=5) == b"still"
        mesh.handlers.release.set()

    readiness = Readiness()
    async with serving(on_drain=on_drain, readiness=readiness, grace_seconds=5.0) as mesh:
        waiting = asyncio.create_task(mesh.call("wait"))
        await mesh.handlers.entered.wait()
        await mesh.server.stop()
        order.append("stopped")
        assert await waiting == b"done"
    assert order == ["on_drain", "stopped"]


async def test_handlers_have_cleaned_up_when_the_stop_returns() -> None:
    async with serving(grace_seconds=0.05) as mesh:
        calling = asyncio.create_task(mesh.failure("hang"))
        await mesh.handlers.entered.wait()
        await mesh.server.stop()
        assert mesh.handlers.ended == ["hang"]
        assert isinstance(await calling, JobmeshError)


async def test_a_drain_callback_that_fails_does_not_stop_the_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def on_drain() -> None:
        raise BackendUnavailable("postgres")

    caplog.set_level(logging.ERROR)
    async with serving(on_drain=on_drain) as mesh:
        await mesh.server.stop()
        with pytest.raises(grpc.aio.AioRpcError):
            await mesh.call("echo", timeout=0.5)
    assert "ending own streams failed" in caplog.text


async def run(*command: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def get_job(request: job_service_pb2.GetJobRequest, context: Any) -> Any:
    raise InvalidField("job_id", f"is not a job id: {request.job_id}")


def add_get_job(servicer: object, server: grpc.aio.Server) -> None:
    method = grpc.unary_unary_rpc_method_handler(
        get_job,
        request_deserializer=job_service_pb2.GetJobRequest.FromString,
        response_serializer=job_pb2.Job.SerializeToString,
    )
    handler = grpc.method_handlers_generic_handler("jobmesh.v1.JobService", {"GetJob": method})
    server.add_generic_rpc_handlers((handler,))


@pytest.mark.parametrize(
    "command",
    [
        lambda address: ("grpcurl", "-plaintext", "-d", '{"job_id":"x"}', address, METHOD),
        lambda address: (
            "buf", "curl", "--protocol", "grpc", "--http2-prior-knowledge", "-d",
            '{"job_id":"x"}', f"http://{address}/{METHOD}",
        ),
    ],
    ids=["grpcurl", "buf"],
)  # fmt: skip
async def test_tools_call_by_reflection_and_show_the_details(
    command: Callable[[str], tuple[str, ...]],
) -> None:
    entry = (add_get_job, None, "jobmesh.v1.JobService")
    server = GrpcServer("127.0.0.1", 0, [entry], drain_seconds=0)
    await server.start()
    try:
        name, *arguments = command(server.address)
        code, output = await run(str(BIN / name), *arguments)
    finally:
        await server.stop()
    assert code != 0
    assert "is not a job id: x" in output
    assert "google.rpc.ErrorInfo" in output
    assert "google.rpc.BadRequest" in output


METHOD = "jobmesh.v1.JobService/GetJob"
