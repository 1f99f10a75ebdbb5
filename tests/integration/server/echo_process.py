"""A gRPC server on ``argv[1]``'s port that answers with its process id."""

from __future__ import annotations

import os
import sys
from typing import Any

import grpc

from jobmesh.server.grpc_server import GrpcServer
from jobmesh.server.lifecycle import run_forever


class Who(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        if handler_call_details.method != "/test.v1.Who/Ask":
            return None
        return grpc.unary_unary_rpc_method_handler(self.ask)

    async def ask(self, request: bytes, context: Any) -> bytes:
        return str(os.getpid()).encode()


def add(servicer: Who, server: grpc.aio.Server) -> None:
    server.add_generic_rpc_handlers((servicer,))


class Started:
    async def start(self) -> None:
        print("started", flush=True)  # noqa: T201

    async def stop(self) -> None: ...


if __name__ == "__main__":
    server = GrpcServer("127.0.0.1", int(sys.argv[1]), [(add, Who(), "test.v1.Who")])
    sys.exit(run_forever([server, Started()], name="who"))
