"""Whatever is sent to a gateway, its answer is about what was sent, and never a defect."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from jobmesh.channels import open_channel
from jobmesh.ids import new_id
from jobmesh.v1 import job_service_pb2, queue_service_pb2
from tests.support.mesh import DevMesh
from tests.support.refusals import refusal_of

REQUESTS = 600
TIMEOUT = 20.0
PATIENCE = 0.5
DEEPEST = 6

_WORDS = (
    *("", "a", "x" * 200, "x" * 201, "\0", "é", "😀" * 50, "a b", "a.b", "\n", "%s%n", "'; --"),
    *("*", "max_running", "application/json", "text/plain", "\u202e", "\ufffe", "1" * 20),
)
_SMALL = (0, 1, -1, 2, 9, 10, 1000, 1001, 2**31 - 1, -(2**31))
_LARGE = (*_SMALL, 2**63 - 1, -(2**63), 253_402_300_799, 253_402_300_800, -62_135_596_801)
_FLOATS = (0.0, -1.0, 0.5, 2.0**53, 2.0**60, 1e308, float("nan"), float("inf"))
_BYTES = (
    *(b"", b"{}", b"[]", b'{"a":1}', b"\xff", b'{"a":NaN}', b'{"a":1e400}', b'{"a":1,"a":2}'),
    *(b"null", b'{"a":"\\u0000"}', b'{"a":"\\ud83d"}', b'{"a":' + b"9" * 30 + b"}"),
)
# Nobody may stop what other tests use.
_QUEUES = ("any.input", "", "a b")
_ABOUT_THE_REQUEST = {
    *("OK", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION", "ABORTED"),
    *("UNIMPLEMENTED", "RESOURCE_EXHAUSTED"),
}


class Sender:
    """Makes requests up, and sends them."""

    def __init__(self, channel: Any, dice: random.Random) -> None:
        self._channel = channel
        self._dice = dice
        self._job_ids = [new_id()]
        self._methods = [
            method
            for file in (job_service_pb2, queue_service_pb2)
            for service in file.DESCRIPTOR.services_by_name.values()
            for method in service.methods
        ]

    async def send(self) -> None:
        """One call of any method with any request."""
        method = self._dice.choice(self._methods)
        request = GetMessageClass(method.input_type)()
        self._fill(request, self._dice.choice((0.1, 0.3, 0.6)))
        code = await self._call(method, request)
        assert code in _ABOUT_THE_REQUEST, f"{method.full_name} {request!r}: {code}"

    async def _call(self, method: Any, request: Message) -> str:
        path = f"/{method.containing_service.full_name}/{method.name}"
        answer = GetMessageClass(method.output_type)
        own = (type(request).SerializeToString, answer.FromString)
        waits = method.server_streaming or method.name == "WaitJob"
        timeout = PATIENCE if waits else TIMEOUT
        try:
            if method.server_streaming:
                async for _ in self._channel.unary_stream(path, *own)(request, timeout=timeout):
                    pass
            else:
                call = self._channel.unary_unary(path, *own)
                self._remember(await call(request, timeout=timeout))
        except grpc.aio.AioRpcError as error:
            code: str = error.code().name
            if code == "DEADLINE_EXCEEDED" and (
                method.server_streaming or method.name == "WaitJob"
            ):
                return "OK"  # it waits, as it was asked to
            refusal_of(error)
            return code
        return "OK"

    def _remember(self, answer: Message) -> None:
        if isinstance(answer, job_service_pb2.SubmitJobResponse) and answer.job.job_id:
            self._job_ids.append(answer.job.job_id)

    def _fill(self, message: Any, share: float, depth: int = 0) -> None:
        for field in message.DESCRIPTOR.fields:
            if self._dice.random() < share:
                self._set(message, field, share, depth)

    def _set(self, message: Any, field: Any, share: float, depth: int) -> None:
        if field.message_type is None:
            value = self._value(field)
            if field.is_repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)
        elif depth < DEEPEST:
            self._fill(self._part(message, field), share, depth + 1)

    def _part(self, message: Any, field: Any) -> Any:
        part = getattr(message, field.name)
        if field.message_type.GetOptions().map_entry:
            kind = field.message_type.fields_by_name["value"]
            key = self._dice.choice(_WORDS)
            if kind.message_type is not None:
                return part[key]
            part[key] = self._value(kind)
            return job_service_pb2.GetJobRequest()  # nothing is left to be filled
        if field.is_repeated:
            return part.add()
        part.SetInParent()
        return part

    def _value(self, field: Any) -> Any:
        kind, dice = field.type, self._dice
        if kind == FieldDescriptor.TYPE_STRING:
            return dice.choice(self._texts(field))
        if kind == FieldDescriptor.TYPE_BYTES:
            return dice.choice(_BYTES)
        if kind == FieldDescriptor.TYPE_BOOL:
            return dice.random() < 0.5
        if kind == FieldDescriptor.TYPE_ENUM:
            return dice.choice((0, 1, 2, 3, 4, 8, 99, -1))
        if kind in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
            return dice.choice(_FLOATS)
        return dice.choice(_SMALL if kind == FieldDescriptor.TYPE_INT32 else _LARGE)

    def _texts(self, field: Any) -> Any:
        if "job_id" in field.name:
            return (*self._job_ids[-5:], "nonsense", "")
        is_queue = "queue" in field.containing_type.name.lower() and field.name == "name"
        return _QUEUES if is_queue or field.name in ("queue", "queues") else _WORDS


@pytest.mark.timeout(120)
async def test_no_request_is_answered_by_a_defect(mesh: DevMesh) -> None:
    # Of the session's seed, which pytest-randomly prints.
    dice = random.Random(random.random())
    async with open_channel(mesh.gateway, health_check=False) as channel:
        sender = Sender(channel, dice)
        for _ in range(REQUESTS // 20):
            await asyncio.gather(*(sender.send() for _ in range(20)))
