"""A process with a gRPC server and a client of it, for the tests of tracing.

``argv``: ``call`` makes two unary calls, one that the server refuses, inside a span that continues
``argv[2]``; ``leave`` cancels a unary call and a stream, and prints whether their handlers ended.
A line of JSON says what was seen.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc

from jobmesh.errors import JobmeshError, NotFound, from_rpc_error
from jobmesh.server import tracing
from jobmesh.server.channels import open_channel
from jobmesh.server.grpc_server import GrpcServer
from jobmesh.server.logs import JsonFormatter


class Handlers(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    def __init__(self) -> None:
        self.entered = {"hang": asyncio.Event(), "stream": asyncio.Event()}
        self.ended = {"hang": asyncio.Event(), "stream": asyncio.Event()}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        name = handler_call_details.method.rpartition("/")[2]
        if name == "stream":
            return grpc.unary_stream_rpc_method_handler(self.stream)
        return grpc.unary_unary_rpc_method_handler(getattr(self, name))

    async def parent(self, request: bytes, context: Any) -> bytes:
        return tracing.current_traceparent().encode()

    async def refuse(self, request: bytes, context: Any) -> bytes:
        raise NotFound.job("j1")

    async def hang(self, request: bytes, context: Any) -> bytes:
        self.entered["hang"].set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended["hang"].set()
        return b""

    async def stream(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x"
                self.entered["stream"].set()
                await asyncio.sleep(0.001)
        finally:
            self.ended["stream"].set()


async def call(channel: grpc.aio.Channel, traceparent: str) -> dict[str, object]:
    with tracing.span_from(traceparent, "job", {"jobmesh.job_id": "j1"}):
        inner = await channel.unary_unary("/test.v1.T/parent", None, None)(b"", timeout=10)
        try:
            await channel.unary_unary("/test.v1.T/refuse", None, None)(b"", timeout=10)
        except grpc.aio.AioRpcError as error:
            refused: JobmeshError = from_rpc_error(error)
        record = logging.makeLogRecord({"msg": "x", "levelno": logging.INFO})
        line = json.loads(JsonFormatter("test").format(record))
        outer = tracing.current_traceparent()
    return {
        "outer": outer,
        "inner": inner.decode(),
        "refused": refused.reason,
        "log_trace_id": line.get("trace_id", ""),
        "imported": any(name.startswith("opentelemetry") for name in sys.modules),
    }


async def leave(channel: grpc.aio.Channel, handlers: Handlers) -> dict[str, object]:
    hanging = asyncio.ensure_future(
        channel.unary_unary("/test.v1.T/hang", None, None)(b"", timeout=30)
    )
    stream = channel.unary_stream("/test.v1.T/stream", None, None)(b"", timeout=30)
    async for _ in stream:
        break
    async with asyncio.timeout(10):
        for entered in handlers.entered.values():
            await entered.wait()
    hanging.cancel()
    stream.cancel()
    seen: dict[str, object] = {}
    for name, ended in handlers.ended.items():
        try:
            await asyncio.wait_for(ended.wait(), 3)
            seen[name] = True
        except TimeoutError:
            seen[name] = False
    await asyncio.gather(hanging, return_exceptions=True)
    return seen


async def main(what: str, traceparent: str) -> dict[str, object]:
    handlers = Handlers()

    def add(servicer: Handlers, server: grpc.aio.Server) -> None:
        server.add_generic_rpc_handlers((servicer,))

    server = GrpcServer("127.0.0.1", 0, [(add, handlers, "test.v1.T")], drain_seconds=0)
    await server.start()
    try:
        async with open_channel(server.address, "test.v1.T") as channel:
            if what == "leave":
                return await leave(channel, handlers)
            return await call(channel, traceparent)
    finally:
        await server.stop()


if __name__ == "__main__":
    tracing.configure("test")
    result = asyncio.run(main(sys.argv[1], sys.argv[2]))
    tracing.shutdown()
    print(json.dumps(result))  # noqa: T201
