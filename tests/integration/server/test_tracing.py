"""Traces go through storage and calls to a real collector, and cost nothing when they are off."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jobmesh.server import tracing
from tests.integration.server.collector import collecting
from tests.support.process import clean_environment

PROGRAM = Path(__file__).with_name("tracing_process.py")
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE_ID}-b7ad6b7169203331-01"


async def run(what: str, traceparent: str = "", **env: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        what,
        traceparent,
        stdout=asyncio.subprocess.PIPE,
        env=clean_environment() | env,
    )
    async with asyncio.timeout(40):
        output, _ = await process.communicate()
    assert process.returncode == 0
    seen: dict[str, Any] = json.loads(output)
    return seen


def exporter(address: str) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{address}"}


async def test_a_trace_continues_from_a_stored_job_through_calls_to_the_collector() -> None:
    async with collecting() as collector:
        seen = await run("call", TRACEPARENT, **exporter(collector.address))
        spans = list(collector.spans)
    assert seen["refused"] == "JOB_NOT_FOUND"
    assert seen["outer"].split("-")[1] == TRACE_ID
    assert seen["inner"].split("-")[1] == TRACE_ID
    assert seen["inner"] != seen["outer"]
    assert seen["log_trace_id"] == TRACE_ID
    assert {span.trace_id.hex() for span in spans} == {TRACE_ID}
    assert len(collector.named("job")) == 1
    served = [span for span in spans if span.name == "/test.v1.T/refuse"]
    assert sorted(span.kind for span in served) == [2, 3]  # server, client
    assert all(span.status.code == 2 for span in served if span.kind == 3)  # error
    assert not any("grpc.health" in span.name for span in spans)


async def test_the_sampler_is_honoured() -> None:
    async with collecting() as collector:
        sampler = {"OTEL_TRACES_SAMPLER": "always_off"}
        seen = await run("call", **exporter(collector.address), **sampler)
        assert collector.spans == []
    assert seen["refused"] == "JOB_NOT_FOUND"


async def test_off_nothing_is_imported() -> None:
    seen = await run("call", TRACEPARENT)
    assert seen == {
        "outer": "",
        "inner": "",
        "refused": "JOB_NOT_FOUND",
        "log_trace_id": "",
        "imported": False,
    }


@pytest.mark.parametrize("traced", [True, False])
async def test_a_client_that_leaves_stops_the_work_behind_it(traced: bool) -> None:
    async with collecting() as collector:
        env = exporter(collector.address) if traced else {}
        assert await run("leave", **env) == {"hang": True, "stream": True}


async def test_a_collector_that_is_gone_costs_a_moment_at_the_end_only() -> None:
    began = time.monotonic()
    seen = await run("call", **exporter("127.0.0.1:1"))
    assert seen["refused"] == "JOB_NOT_FOUND"
    assert time.monotonic() - began < 7  # three seconds, and the process's own


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True),
        ({"JOBMESH_TRACES": "1"}, True),
        ({"JOBMESH_TRACES": "0"}, False),
        ({"JOBMESH_TRACES": "1", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_environment_decides(env: dict[str, str], expected: bool) -> None:
    assert tracing.wanted(env) is expected


def test_off_the_helpers_do_nothing() -> None:
    assert not tracing.enabled()
    with tracing.span_from(TRACEPARENT, "job", {"a": 1}):
        assert tracing.current_traceparent() == ""
        assert tracing.current_ids() is None
    assert tracing.server_interceptors() == ()
    assert tracing.client_interceptors() == ()
