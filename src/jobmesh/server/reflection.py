"""Server reflection under both of its names, of what is served and nothing else.

grpcio-reflection serves v1alpha only; v1 has the same messages, and newer tools (``buf curl``) ask
for it first. By itself it would also tell of every other contract that the process has loaded, such
as those of the services behind this one, and would not know methods by their names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import grpc
from google.protobuf import descriptor_pool
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha._async import ReflectionServicer

V1ALPHA = "grpc.reflection.v1alpha.ServerReflection"
V1 = "grpc.reflection.v1.ServerReflection"


class Contract:
    """The descriptors that a server tells of: those of its services, and of errors' details.

    It stands in for a ``DescriptorPool`` where the servicer looks things up.
    """

    def __init__(self, services: Iterable[str]) -> None:
        self._pool: Any = descriptor_pool.DescriptorPool()
        self._names: set[str] = set()
        known: Any = descriptor_pool.Default()
        for name in services:
            with contextlib.suppress(KeyError):  # made by hand, without a contract
                self._add(known.FindServiceByName(name).file)
        self._add(error_details_pb2.DESCRIPTOR)

    def _add(self, file: Any) -> None:
        if file.name in self._names:
            return
        for dependency in file.dependencies:
            self._add(dependency)
        self._names.add(file.name)
        self._pool.AddSerializedFile(file.serialized_pb)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def FindFileContainingSymbol(self, symbol: str) -> Any:
        """The file of a service, method, message or enum. Raises KeyError if there is none."""
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            service, _, method = symbol.rpartition(".")
            found = self._pool.FindServiceByName(service)
            return found.methods_by_name[method].containing_service.file


def add_reflection(server: grpc.aio.Server, services: Iterable[str]) -> None:
    """Let tools such as grpcurl ask the server what it serves."""
    names = [*services, V1ALPHA]
    servicer: Any = ReflectionServicer(names, Contract(names))  # type: ignore[no-untyped-call]
    add: Any = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
    add(servicer, server)
    method = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    handler = grpc.method_handlers_generic_handler(V1, {"ServerReflectionInfo": method})
    server.add_generic_rpc_handlers((handler,))
