"""Asks one gateway how it is, by grpc.health.v1."""

from __future__ import annotations

import time
from dataclasses import dataclass

import grpc
import grpc.aio
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from jobmesh.channels import open_channel
from jobmesh.client.calls import cause_of
from jobmesh.errors import from_rpc_error

CHECK = "/grpc.health.v1.Health/Check"
TIMEOUT = 3.0
SERVING = "SERVING"
_STATUSES = {0: "UNKNOWN", 1: SERVING, 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


@dataclass(frozen=True, slots=True)
class Health:
    """What a gateway answered."""

    address: str
    status: str
    seconds: float
    version: str = ""
    why: str = ""

    @property
    def serving(self) -> bool:
        """Whether it takes calls."""
        return self.status == SERVING


async def ask(address: str) -> Health:
    """How the gateway is; never fails."""
    began = time.perf_counter()
    # Without the channel's own health check, which would hide one that does not serve.
    async with open_channel(address, health_check=False) as channel:
        # The messages of the health service, by what they look like on the wire: one string, and
        # one enum. Its package is no dependency of a client.
        check = channel.unary_unary(
            CHECK,
            request_serializer=StringValue.SerializeToString,
            response_deserializer=Int32Value.FromString,
        )
        call = check(StringValue(), timeout=TIMEOUT)
        try:
            answer = await call
            version = dict(await call.initial_metadata()).get("jobmesh-version", "")
        except grpc.aio.AioRpcError as error:
            why = cause_of(from_rpc_error(error).message)
            return Health(address, "UNREACHABLE", time.perf_counter() - began, why=why)
    status = _STATUSES.get(answer.value, str(answer.value))
    return Health(address, status, time.perf_counter() - began, version=str(version))
