"""OpenTelemetry, imported only when traces are wanted: see :mod:`jobmesh.server.tracing`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import grpc
import grpc.aio
from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.grpc import aio_client_interceptors
from opentelemetry.instrumentation.grpc._aio_server import OpenTelemetryAioServerInterceptor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_propagator = TraceContextTextMapPropagator()
_SHUTDOWN_SECONDS = 3.0
_UNTRACED = ("/grpc.health.", "/grpc.reflection.")


class OpenTelemetry:
    """A tracer provider with an OTLP exporter; the sampler comes from ``OTEL_TRACES_SAMPLER``."""

    def __init__(self, service: str, processor: SpanProcessor | None = None) -> None:
        name = os.environ.get("OTEL_SERVICE_NAME") or f"jobmesh-{service}"
        self._provider = TracerProvider(resource=Resource.create({"service.name": name}))
        # Its queue is bounded and drops: a collector that is gone costs jobs nothing.
        self._provider.add_span_processor(processor or BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("jobmesh")
        propagate.set_global_textmap(_propagator)

    def shutdown(self) -> None:
        """Export what is left; a collector that does not answer is left behind."""
        # The provider's own time-outs do not hold while its exporter retries (8 s were measured).
        ending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        ending.start()
        ending.join(_SHUTDOWN_SECONDS)

    def server_interceptors(self) -> Sequence[Any]:
        """Spans for served unary calls, but not for probes."""
        return (UnaryServerInterceptor(self._tracer),)

    def client_interceptors(self) -> Sequence[Any]:
        """Spans for unary calls made.

        Streams get none: the instrumentation wraps them so that a client that leaves cancels the
        RPC late or never, and one span for the hours that a stream lives says nothing.
        """
        make: Any = aio_client_interceptors  # it has no types
        unary = [
            interceptor
            for interceptor in make(tracer_provider=self._provider, filter_=_is_traced)
            if isinstance(interceptor, grpc.aio.UnaryUnaryClientInterceptor)
        ]
        return (*unary, CancellingInterceptor())

    def current_traceparent(self) -> str:
        """The active span as a ``traceparent``."""
        carrier: dict[str, str] = {}
        _propagator.inject(carrier)
        return carrier.get("traceparent", "")

    def current_ids(self) -> tuple[str, str] | None:
        """The active span's ids."""
        context = trace.get_current_span().get_span_context()
        if not context.is_valid:
            return None
        return trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id)

    def span(
        self, name: str, traceparent: str, attributes: Mapping[str, str | int | float]
    ) -> contextlib.AbstractContextManager[object]:
        """A span below ``traceparent``."""
        parent = _propagator.extract({"traceparent": traceparent})
        return self._tracer.start_as_current_span(name, parent, attributes=dict(attributes))


class UnaryServerInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """OpenTelemetry's interceptor, for unary calls only.

    It does not close the generators of streams that it wraps, and reports OK for those that failed
    or were cancelled.
    """

    def __init__(self, tracer: trace.Tracer) -> None:
        make: Any = OpenTelemetryAioServerInterceptor  # it has no types
        self._traced = make(tracer, filter_=_is_traced)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """The handler of the call, in a span if it is unary."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming or handler.response_streaming:
            return handler

        async def found(details: grpc.HandlerCallDetails) -> Any:
            return handler

        return await self._traced.intercept_service(found, handler_call_details)


class CancellingInterceptor(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[type-arg]
    """Cancels the RPC when the task that awaits it is cancelled.

    OpenTelemetry's interceptor, outside of this one, awaits the call's code: its cancellation would
    leave the call running on the server to its deadline.
    """

    async def intercept_unary_unary(
        self,
        continuation: Callable[[Any, Any], Any],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        """Await the call here, where it can be cancelled."""
        call = await continuation(client_call_details, request)
        try:
            await (
                call.code()
            )  # unlike awaiting the call, it does not raise what the call failed with
        except asyncio.CancelledError:
            call.cancel()
            raise
        return call


def _is_traced(details: Any) -> bool:
    method = details.method
    if isinstance(method, bytes):
        method = method.decode()
    return not method.startswith(_UNTRACED)
