"""Server reflection under both of its names.

grpcio-reflection serves v1alpha only; v1 has the same messages, and newer tools (``buf curl``) ask
for it first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha._async import ReflectionServicer

V1ALPHA = "grpc.reflection.v1alpha.ServerReflection"
V1 = "grpc.reflection.v1.ServerReflection"


def add_reflection(server: grpc.aio.Server, services: Iterable[str]) -> None:
    """Let tools such as grpcurl ask the server what it serves."""
    servicer: Any = ReflectionServicer([*services, V1ALPHA])  # type: ignore[no-untyped-call]
    add: Any = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
    add(servicer, server)
    method = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    handler = grpc.method_handlers_generic_handler(V1, {"ServerReflectionInfo": method})
    server.add_generic_rpc_handlers((handler,))
