"""The limits of a job, each refused with the path of its field."""

from __future__ import annotations

import math

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.errors import InvalidFields
from jobmesh.v1.job_pb2 import JobSpec, RetryPolicy
from jobmesh.validation import Violations, check_job_spec

YEAR_10000 = 253_402_300_800


def violations(job: JobSpec, path: str = "job") -> dict[str, str]:
    found = Violations()
    check_job_spec(job, path, found)
    error = found.error()
    return dict(error.violations) if error else {}


def spec(**fields: object) -> JobSpec:
    fields.setdefault("type", "reports.generate")
    return JobSpec(**fields)  # type: ignore[arg-type]


def policy(**fields: object) -> JobSpec:
    return spec(retry_policy=RetryPolicy(**fields))  # type: ignore[arg-type]


BAD: list[tuple[JobSpec, str]] = [
    (JobSpec(), "job.type"),
    (spec(type="x" * 201), "job.type"),
    (spec(type="x" * 300), "job.type"),
    (spec(type="a b"), "job.type"),
    (spec(type="ä"), "job.type"),
    (spec(type="a\n"), "job.type"),
    (spec(queue="a/b"), "job.queue"),
    (spec(queue="q" * 201), "job.queue"),
    (spec(priority=10), "job.priority"),
    (spec(priority=-1), "job.priority"),
    (spec(timeout=Duration(seconds=-1)), "job.timeout"),
    (spec(timeout=Duration(nanos=999_999)), "job.timeout"),
    (spec(timeout=Duration()), "job.timeout"),
    (spec(timeout=Duration(seconds=1, nanos=-1)), "job.timeout"),
    (spec(timeout=Duration(seconds=1, nanos=1_000_000_000)), "job.timeout"),
    (spec(timeout=Duration(seconds=366 * 86_400, nanos=1)), "job.timeout"),
    (spec(timeout=Duration(seconds=2**62)), "job.timeout"),
    (spec(delay=Duration(seconds=-1)), "job.delay"),
    (spec(delay=Duration(seconds=367 * 86_400)), "job.delay"),
    (spec(run_at=Timestamp(seconds=YEAR_10000)), "job.run_at"),
    (spec(run_at=Timestamp(seconds=-62_135_596_801)), "job.run_at"),
    (spec(run_at=Timestamp(nanos=-1)), "job.run_at"),
    (spec(run_at=Timestamp(nanos=1_000_000_000)), "job.run_at"),
    (spec(run_at=Timestamp(seconds=2**63 - 1)), "job.run_at"),
    (policy(max_attempts=0), "job.retry_policy.max_attempts"),
    (policy(max_attempts=1001), "job.retry_policy.max_attempts"),
    (policy(max_attempts=-5), "job.retry_policy.max_attempts"),
    (policy(initial_interval=Duration()), "job.retry_policy.initial_interval"),
    (policy(max_interval=Duration(seconds=31 * 86_400)), "job.retry_policy.max_interval"),
    (
        policy(initial_interval=Duration(seconds=2), max_interval=Duration(seconds=1)),
        "job.retry_policy.max_interval",
    ),
    (policy(backoff_coefficient=0.5), "job.retry_policy.backoff_coefficient"),
    (policy(backoff_coefficient=0.0), "job.retry_policy.backoff_coefficient"),
    (policy(backoff_coefficient=math.nan), "job.retry_policy.backoff_coefficient"),
    (policy(backoff_coefficient=math.inf), "job.retry_policy.backoff_coefficient"),
    (policy(jitter=1.5), "job.retry_policy.jitter"),
    (policy(jitter=math.nan), "job.retry_policy.jitter"),
    (
        policy(non_retryable_error_types=["A", ""]),
        "job.retry_policy.non_retryable_error_types[1]",
    ),
    (policy(non_retryable_error_types=["A"] * 51), "job.retry_policy.non_retryable_error_types"),
    (spec(restart=9), "job.restart"),
    (spec(restart=2), "job.restart"),
    (spec(restart=3), "job.restart"),
    (spec(labels={"a": "b\0"}), 'job.labels["a"]'),
    (spec(labels={"a\0": "b"}), 'job.labels["a\\x00"]'),
    (spec(labels={"a": ""}), 'job.labels["a"]'),
    (spec(labels={"": "a"}), 'job.labels[""]'),
    (spec(labels={"a": "x" * 201}), 'job.labels["a"]'),
    (spec(labels={str(i): "x" for i in range(33)}), "job.labels"),
    (spec(parent_job_id="no uuid"), "job.parent_job_id"),
    (spec(heartbeat_timeout=Duration(nanos=999_999_999)), "job.heartbeat_timeout"),
    (spec(heartbeat_timeout=Duration(seconds=366 * 86_400 + 1)), "job.heartbeat_timeout"),
    (spec(deadline=Timestamp(seconds=YEAR_10000)), "job.deadline"),
    (spec(deadline=Timestamp(nanos=-1)), "job.deadline"),
    (spec(expires_after=Duration()), "job.expires_after"),
    (spec(expires_after=Duration(seconds=366 * 86_400 + 1)), "job.expires_after"),
    (spec(shard_key="a"), "job.shard_key"),
    (spec(concurrency_key="a"), "job.concurrency_key"),
    (spec(fairness_key="a"), "job.fairness_key"),
    (spec(unique_key="a"), "job.unique_key"),
]


@pytest.mark.parametrize(("job", "field"), BAD, ids=lambda value: str(value)[:40])
def test_a_bad_field_is_named_and_nothing_else(job: JobSpec, field: str) -> None:
    assert list(violations(job)) == [field]


GOOD: list[JobSpec] = [
    spec(),
    spec(type="A-z_0.9" + "x" * 193, queue="q" * 200),
    spec(priority=0, labels={"ключ": "значение с пробелом", "x" * 200: "y" * 200}),
    spec(priority=9, restart=1, parent_job_id="0199C0DE-0000-7000-8000-000000000000"),
    spec(restart=0, delay=Duration()),
    spec(delay=Duration(seconds=366 * 86_400)),
    spec(timeout=Duration(nanos=1_000_000)),
    spec(timeout=Duration(seconds=366 * 86_400)),
    spec(run_at=Timestamp(seconds=YEAR_10000 - 1, nanos=999_999_999)),
    spec(run_at=Timestamp(seconds=-62_135_596_800)),
    spec(heartbeat_timeout=Duration(seconds=1), expires_after=Duration(seconds=366 * 86_400)),
    spec(heartbeat_timeout=Duration(seconds=366 * 86_400), expires_after=Duration(seconds=1)),
    spec(deadline=Timestamp(seconds=-62_135_596_800)),
    spec(deadline=Timestamp(seconds=YEAR_10000 - 1, nanos=999_999_999)),
    policy(max_attempts=1, jitter=0.0, backoff_coefficient=1.0),
    policy(max_attempts=1000, jitter=1.0, backoff_coefficient=100.0),
    policy(initial_interval=Duration(seconds=1), max_interval=Duration(seconds=1)),
    policy(non_retryable_error_types=["ValueError"] * 50),
]


@pytest.mark.parametrize("job", GOOD, ids=lambda value: str(value)[:40])
def test_the_limits_themselves_are_allowed(job: JobSpec) -> None:
    assert violations(job) == {}


def test_all_mistakes_are_told_at_once_up_to_ten() -> None:
    job = policy(max_attempts=0, jitter=2.0)
    job.queue = "a b"
    job.priority = 11
    assert list(violations(job, "requests[3].job")) == [
        "requests[3].job.queue",
        "requests[3].job.priority",
        "requests[3].job.retry_policy.max_attempts",
        "requests[3].job.retry_policy.jitter",
    ]
    job.labels.update({f"l{i}": "\x01" for i in range(20)})
    assert len(violations(job)) == 10


def test_an_error_carries_its_violations() -> None:
    found = Violations()
    found.add("a", "is wrong")
    found.add("b", "is wrong, too")
    with pytest.raises(InvalidFields) as caught:
        found.raise_any()
    assert caught.value.violations == [("a", "is wrong"), ("b", "is wrong, too")]
    assert caught.value.reason == "INVALID_FIELD"


def test_every_field_of_a_job_is_checked_somewhere() -> None:
    """A new field of the contract must not pass unchecked: the payload alone is checked apart."""
    from jobmesh.v1.job_pb2 import JobFilter
    from jobmesh.validation import job_filter, job_spec, retry_policy

    assert {f.name for f in JobSpec.DESCRIPTOR.fields} == set(job_spec._BY_NAME) | {"payload"}
    assert {f.name for f in RetryPolicy.DESCRIPTOR.fields} == set(retry_policy._CHECKS)
    assert {f.name for f in JobFilter.DESCRIPTOR.fields} == set(job_filter._CHECKS)
