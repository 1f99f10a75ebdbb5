"""Prometheus metrics of the process: one registry, names ``jobmesh_…``, labels of few values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

PREFIX = "jobmesh_"
CONTENT_TYPE = CONTENT_TYPE_LATEST
# From a call inside the mesh (0.3 ms) to the default deadline of 30 s.
SECONDS_BUCKETS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
COUNT_BUCKETS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)

# A time of creation for every series would double them, for a reader that we do not have.
disable_created_metrics()  # type: ignore[no-untyped-call]
REGISTRY = CollectorRegistry(auto_describe=True)
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)

M = TypeVar("M", Counter, Gauge, Histogram)
_made: dict[str, Counter | Gauge | Histogram] = {}


def counter(name: str, documentation: str, labels: Sequence[str] = ()) -> Counter:
    """The counter of that name, made on first use; the name ends with ``_total``."""
    if not name.endswith("_total"):
        raise ValueError(f"{name}: a counter's name ends with _total")
    return _once(
        Counter, name, lambda: Counter(_valid(name), documentation, labels, registry=REGISTRY)
    )


def gauge(name: str, documentation: str, labels: Sequence[str] = ()) -> Gauge:
    """The gauge of that name, made on first use."""
    return _once(Gauge, name, lambda: Gauge(_valid(name), documentation, labels, registry=REGISTRY))


def histogram(
    name: str,
    documentation: str,
    labels: Sequence[str] = (),
    buckets: Sequence[float] = SECONDS_BUCKETS,
) -> Histogram:
    """The histogram of that name, made on first use; a duration's name ends with ``_seconds``."""
    return _once(
        Histogram,
        name,
        lambda: Histogram(_valid(name), documentation, labels, registry=REGISTRY, buckets=buckets),
    )


def exposition() -> bytes:
    """All metrics in Prometheus's text format."""
    return generate_latest(REGISTRY)


def _valid(name: str) -> str:
    if not name.startswith(PREFIX):
        raise ValueError(f"{name}: names of metrics begin with {PREFIX}")
    return name


def _once(kind: type[M], name: str, make: Callable[[], M]) -> M:
    found = _made.get(name)
    if found is None:
        found = _made[name] = make()
    if not isinstance(found, kind):
        raise ValueError(f"{name} is a {type(found).__name__} already")
    return found
