from __future__ import annotations

from typing import Any

import pytest

from jobmesh import InvalidDuration, InvalidRetry, Retry


def test_what_is_left_out_is_left_to_the_queue() -> None:
    policy = Retry(max_attempts=3).to_proto()

    assert policy.max_attempts == 3
    assert not policy.HasField("initial_interval")
    assert not policy.HasField("backoff_coefficient")
    assert not policy.HasField("jitter")


def test_everything_that_is_set_travels() -> None:
    policy = Retry(
        max_attempts=7,
        initial_interval="250ms",
        backoff_coefficient=1.5,
        max_interval="10m",
        jitter=0,
        non_retryable_error_types=(ValueError, "NoSuchMonth"),
    ).to_proto()

    assert policy.max_attempts == 7
    assert policy.initial_interval.ToMilliseconds() == 250
    assert policy.backoff_coefficient == 1.5
    assert policy.max_interval.ToSeconds() == 600
    assert policy.HasField("jitter")
    assert policy.jitter == 0
    assert list(policy.non_retryable_error_types) == ["ValueError", "NoSuchMonth"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_attempts", 0),
        ("max_attempts", 1001),
        ("max_attempts", 1.5),
        ("max_attempts", True),
        ("backoff_coefficient", 0.9),
        ("backoff_coefficient", float("nan")),
        ("jitter", 1.1),
        ("jitter", "some"),
        ("initial_interval", "0s"),
        ("max_interval", "31d"),
        ("non_retryable_error_types", "ValueError"),
        ("non_retryable_error_types", ("",)),
        ("non_retryable_error_types", ("x",) * 51),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidRetry, match=rf"^Retry\.{field} ") as refused:
        Retry(**{field: value})
    assert refused.value.field == field


def test_the_longest_wait_is_not_shorter_than_the_first() -> None:
    with pytest.raises(InvalidRetry, match="shorter than initial_interval"):
        Retry(initial_interval="1m", max_interval="30s")


def test_a_length_that_cannot_be_read_names_the_setting() -> None:
    with pytest.raises(InvalidDuration, match=r"^Retry\.initial_interval: "):
        Retry(initial_interval="soon")
