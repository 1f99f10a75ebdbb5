"""The benchmark works, on sizes too small to judge anything by."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from benchmarks.figures import Figure
from benchmarks.ours.latency import percentile

ROOT = Path(__file__).parents[2]
FIGURES = {
    "queue that runs 3 at a time",
    "PostgreSQL, bare: insert",
    "PostgreSQL, bare: claim",
    "batch submit",
    "drain of a backlog",
    "single submits, in flight",
    "start latency p50 (submit → handler)",
    "start latency p99 (submit → handler)",
    "start latency p50 (create_time → start_time)",
    "start latency p99 (create_time → start_time)",
    "firing lateness p50",
    "firing lateness p99",
    "firings of one second: the last",
    "peak memory: dispatcher",
    "peak memory: gateway",
    "peak memory: runner",
    "peak memory: scheduler",
}


@pytest.mark.timeout(180)
async def test_every_figure_is_measured() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks", "--smoke", "--json",
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    figures = json.loads(output)
    assert {figure["name"] for figure in figures} == FIGURES
    assert all(figure["value"] > 0 for figure in figures)
    with_floor = [figure for figure in figures if figure["floor"]]
    assert len(with_floor) == 4
    assert all(figure["ratio"] > 0 for figure in with_floor)


def test_a_ratio_is_taken_within_its_round() -> None:
    """A machine that is slow for one round slows both sides of it."""
    figure = Figure(
        name="x", unit="/s", ours=(10, 50, 12), floor=(20, 100, 24), least_ratio=0.5
    )  # fmt: skip
    assert figure.ratio == 0.5
    assert figure.ok


@pytest.mark.parametrize(("most", "ok"), [(5.0, True), (4.9, False), (None, True)])
def test_a_figure_is_judged_by_its_median(most: float | None, ok: bool) -> None:
    assert Figure(name="x", unit="ms", ours=(1.0, 5.0, 90.0), most=most).ok is ok


def test_percentiles() -> None:
    values = [float(number) for number in range(1, 101)]
    assert percentile(values, 50) == 51.0
    assert percentile(values, 99) == 100.0
    assert percentile([7.0], 99) == 7.0
