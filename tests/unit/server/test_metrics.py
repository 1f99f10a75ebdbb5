"""Names of metrics, and that a second registration finds the first."""

from __future__ import annotations

import re

import pytest

from jobmesh.server import metrics


def test_the_same_name_is_the_same_metric() -> None:
    first = metrics.counter("jobmesh_sample_total", "A sample.", ("queue",))
    assert metrics.counter("jobmesh_sample_total", "A sample.", ("queue",)) is first
    first.labels("q").inc()
    assert b'jobmesh_sample_total{queue="q"} 1.0' in metrics.exposition()


def test_a_name_keeps_its_kind_and_its_form() -> None:
    metrics.gauge("jobmesh_sample_depth", "A sample.")
    with pytest.raises(ValueError, match="is a Gauge already"):
        metrics.histogram("jobmesh_sample_depth", "A sample.")
    with pytest.raises(ValueError, match="begin with jobmesh_"):
        metrics.gauge("sample_depth", "A sample.")
    with pytest.raises(ValueError, match="ends with _total"):
        metrics.counter("jobmesh_sample", "A sample.")


def test_the_process_describes_itself() -> None:
    text = metrics.exposition()
    assert b"process_resident_memory_bytes" in text
    assert not re.search(rb"_created[ {]", text)  # as a name; a label may have it
