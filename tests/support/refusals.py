"""What a refused call was told, held to the rules for all errors."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass

import grpc
import pytest
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

DETAILS_KEY = "grpc-status-details-bin"
MOST_DETAILS_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Refusal:
    """A status of jobmesh: its code, its reason, and what is wrong with which field."""

    code: grpc.StatusCode
    reason: str
    message: str
    metadata: dict[str, str]
    violations: dict[str, str]
    retry_seconds: float | None

    @property
    def fields(self) -> set[str]:
        """The fields named."""
        return set(self.violations)


async def refusal(call: Awaitable[object]) -> Refusal:
    """How a call was refused; fails if it was not, or without the details that all errors have."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return refusal_of(caught.value)


def refusal_of(error: grpc.aio.AioRpcError) -> Refusal:
    """What an error of gRPC says."""
    trailers: dict[str, str | bytes] = dict(error.trailing_metadata() or ())  # type: ignore[arg-type]
    packed = trailers.get(DETAILS_KEY)
    assert isinstance(packed, bytes), f"without details: {error!r}"
    assert len(packed) <= MOST_DETAILS_BYTES
    found = status_refusal(Status.FromString(packed))
    assert found.code is error.code()
    return found


def status_refusal(status: Status) -> Refusal:
    """What a status says, e.g. the one of a single job in a batch."""
    assert status.ByteSize() <= MOST_DETAILS_BYTES
    assert status.message.isascii()
    assert status.message.isprintable()
    infos, bad = [], error_details_pb2.BadRequest()
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    seconds = None
    for detail in status.details:
        if detail.Unpack(info):
            infos.append(info)
        elif detail.Unpack(retry):
            seconds = retry.retry_delay.ToTimedelta().total_seconds()
        else:
            detail.Unpack(bad)
    assert len(infos) == 1, status
    assert info.domain == "jobmesh"
    codes = {code.value[0]: code for code in grpc.StatusCode}
    return Refusal(
        code=codes[status.code],
        reason=info.reason,
        message=status.message,
        metadata=dict(info.metadata),
        violations={v.field: v.description for v in bad.field_violations},
        retry_seconds=seconds,
    )
