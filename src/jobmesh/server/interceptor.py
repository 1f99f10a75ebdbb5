"""What every call of a service passes through: errors become statuses, calls are counted.

It costs about ten microseconds a call. Wrapped handlers are kept by method, so that a call builds
none; the order of work in a call is: deadline, handler, error, metrics.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from time import perf_counter
from typing import Any, NoReturn

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from jobmesh.errors import (
    DETAILS_KEY,
    DeadlineExceeded,
    Internal,
    InvalidField,
    JobmeshError,
    Unavailable,
    from_rpc_error,
    to_status,
)
from jobmesh.server.call_metrics import ActiveCalls, MethodMetrics

log = logging.getLogger(__name__)

DEFAULT_DEADLINE_SECONDS = 30.0

Context = grpc.aio.ServicerContext[Any, Any]
Handler = Callable[[Any, Context], Any]
# Probes and tools: neither counted nor limited.
_INFRASTRUCTURE = ("/grpc.health.", "/grpc.reflection.")


class CallInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Wraps each handler of a server once.

    ``deadlines`` gives seconds by full method name (``/jobmesh.v1.JobService/WaitJob``) for unary
    calls that came without one, instead of ``default_deadline``; ``None`` means no limit.
    """

    def __init__(
        self,
        default_deadline: float = DEFAULT_DEADLINE_SECONDS,
        deadlines: Mapping[str, float | None] | None = None,
    ) -> None:
        self._default_deadline = default_deadline
        self._deadlines = dict(deadlines or {})
        self._wrapped: dict[str, tuple[Any, Any]] = {}
        self._active = ActiveCalls()

    async def wait_idle(self) -> None:
        """Return once no handler runs any more, their `finally` blocks included."""
        await self._active.wait_idle()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """The handler of the call, wrapped."""
        handler = await continuation(handler_call_details)
        method: str = handler_call_details.method
        known = self._wrapped.get(method)
        if known is not None and known[0] is handler:
            return known[1]
        if handler is None or method.startswith(_INFRASTRUCTURE):
            return handler
        wrapped = self._wrap(method, handler)
        self._wrapped[method] = (handler, wrapped)
        return wrapped

    def _wrap(self, method: str, handler: Any) -> Any:
        metrics = MethodMetrics(method, self._active)
        serializers = handler.request_deserializer, handler.response_serializer
        deadline = self._deadlines.get(method, self._default_deadline)
        readable = _reading(handler.request_deserializer), handler.response_serializer
        if handler.unary_unary:
            behavior = _unary(handler.unary_unary, metrics, deadline)
            return grpc.unary_unary_rpc_method_handler(behavior, *readable)
        if handler.stream_unary:
            behavior = _unary(handler.stream_unary, metrics, None)
            return grpc.stream_unary_rpc_method_handler(behavior, *serializers)
        if handler.unary_stream:
            behavior = _stream(handler.unary_stream, metrics)
            return grpc.unary_stream_rpc_method_handler(behavior, *readable)
        behavior = _stream(handler.stream_stream, metrics)
        return grpc.stream_stream_rpc_method_handler(behavior, *serializers)


class _Unreadable:
    """Stands for a request that is not what its method takes, until the call can be refused."""

    def __init__(self, why: DecodeError) -> None:
        self.error = InvalidField("request", str(why))


def _reading(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    """Left to gRPC, bytes that cannot be read would be answered as UNKNOWN, without details."""
    if deserialize is None:
        return None

    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError as error:
            return _Unreadable(error)

    return read


def _require_readable(request: Any) -> None:
    if isinstance(request, _Unreadable):
        raise request.error


def _unary(behavior: Handler, metrics: MethodMetrics, deadline: float | None) -> Handler:
    async def call(request: Any, context: Context) -> Any:
        began = perf_counter()
        code = "OK"
        metrics.begin()
        try:
            _require_readable(request)
            if deadline is None or context.time_remaining() is not None:
                return await behavior(request, context)
            return await _limited(behavior, request, context, deadline)
        except BaseException as error:
            code, answer = _judge(error, context, metrics.method)
            if answer is None:
                raise
            await _abort(context, answer)
        finally:
            metrics.end(code, perf_counter() - began)

    return call


async def _limited(behavior: Handler, request: Any, context: Context, seconds: float) -> Any:
    """Apply our deadline, as the client gave none: a call held for ever holds memory for ever."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await behavior(request, context)
    except TimeoutError:
        if not limit.expired():
            raise
        raise DeadlineExceeded(
            f"no answer within {seconds:g} s; set a deadline if the call may take longer"
        ) from None


def _stream(behavior: Handler, metrics: MethodMetrics) -> Handler:
    if not inspect.isasyncgenfunction(behavior):
        return _unary(behavior, metrics, None)  # coroutine style: it writes by itself

    async def call(request: Any, context: Context) -> AsyncIterator[Any]:
        began = perf_counter()
        code = "OK"
        metrics.begin()
        try:
            _require_readable(request)
            # Closed here and now, so that the handler's `finally` does not wait for a collector.
            async with aclosing(behavior(request, context)) as responses:
                async for response in responses:
                    yield response
        except BaseException as error:
            code, answer = _judge(error, context, metrics.method)
            if answer is None:
                raise
            await _abort(context, answer)
        finally:
            metrics.end(code, perf_counter() - began)

    return call


def _judge(error: BaseException, context: Context, method: str) -> tuple[str, JobmeshError | None]:
    """The name of the code that the call ends with, and what is still to be answered.

    A cancellation, and a handler's own abort, are left as they are.
    """
    if isinstance(error, GeneratorExit) or _is_cancelled(error):
        return "CANCELLED", None
    if isinstance(error, asyncio.CancelledError):
        # Something inside was cancelled, not this call: a part that is being stopped.
        return "UNAVAILABLE", Unavailable("the call was interrupted inside the service")
    if isinstance(error, grpc.aio.AbortError):
        return _code_of(context), None
    if not isinstance(error, Exception):
        return "UNKNOWN", None  # KeyboardInterrupt and the like: not an answer to a call
    answer = _as_known(error, method)
    return answer.code.name, answer


async def _abort(context: Context, answer: JobmeshError) -> NoReturn:
    status = to_status(answer)
    details = ((DETAILS_KEY, status.SerializeToString()),)
    await context.abort(answer.code, status.message, details)


def _is_cancelled(error: BaseException) -> bool:
    """Whether the call's own task is being cancelled: the client left, or its deadline passed."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _code_of(context: Context) -> str:
    code: object = context.code()  # a StatusCode by its type, a number in fact
    for known in grpc.StatusCode:
        if code is known or code == known.value[0]:
            return known.name
    return "UNKNOWN"


def _as_known(error: Exception, method: str) -> JobmeshError:
    if isinstance(error, JobmeshError):
        return error
    if isinstance(error, grpc.aio.AioRpcError):
        return _passed_on(error, method)
    return _unexpected(error, method)


def _passed_on(error: grpc.aio.AioRpcError, method: str) -> JobmeshError:
    """What a service behind this one answered; its own words only if it is one of ours."""
    known = from_rpc_error(error)
    if known.from_jobmesh:
        return known
    if known.code is grpc.StatusCode.UNAVAILABLE:
        log.warning("%s: a service behind is not available: %s", method, error.details())
        return Unavailable("a service behind this one is not available", retry_after=1.0)
    if known.code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded("a service behind this one did not answer in time")
    return _unexpected(error, method)


def _unexpected(error: Exception, method: str) -> JobmeshError:
    error_id = uuid.uuid4().hex[:12]
    log.error("%s failed, error id %s", method, error_id, exc_info=error)
    return Internal(error_id)
