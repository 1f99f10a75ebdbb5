"""What an update makes of a queue's settings."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.errors import InvalidField
from jobmesh.v1.job_pb2 import RetryPolicy
from jobmesh.v1.queue_pb2 import Queue
from jobmesh_dispatcher.queue_settings import QueueSettings, update_paths
from jobmesh_dispatcher.queue_token import queue_token

LIMITS = st.none() | st.integers(1, 100)
SETTINGS = st.builds(
    QueueSettings, max_running=LIMITS, max_depth=LIMITS, dispatch_paused=st.booleans()
)
VALUES: dict[str, Any] = {
    "max_running": 1,
    "max_depth": 2,
    "default_retry_policy": RetryPolicy(max_attempts=3),
    "default_timeout": Duration(seconds=4),
    "dispatch_paused": True,
    "intake_paused": True,
}


def test_all_that_is_set_changes_without_a_mask() -> None:
    wanted = Queue(name="q", etag="7", pause_note="x", **VALUES)
    assert set(update_paths(wanted, [])) == set(VALUES)
    assert set(update_paths(Queue(), ["*"])) == set(VALUES)
    assert update_paths(Queue(name="q", max_depth=1, max_running=0), []) == ["max_depth"]
    assert update_paths(wanted, ["max_depth"]) == ["max_depth"]


@given(SETTINGS, st.sets(st.sampled_from(sorted(VALUES))))
def test_only_what_is_named_changes(before: QueueSettings, paths: set[str]) -> None:
    after = before.changed(Queue(name="q", **VALUES), sorted(paths))
    for path, value in VALUES.items():
        stored = getattr(after, path)
        if path not in paths:
            assert stored == getattr(before, path)
        elif isinstance(stored, bytes):
            assert type(value).FromString(stored) == value
        else:
            assert stored == value


@given(SETTINGS)
def test_naming_everything_and_setting_nothing_unsets(before: QueueSettings) -> None:
    assert before.changed(Queue(name="q"), sorted(VALUES)) == QueueSettings()


@pytest.mark.parametrize("path", ["name", "etag", "depth", "pause_note", "rate_limit", ""])
def test_what_is_no_setting_is_refused(path: str) -> None:
    with pytest.raises(InvalidField, match="update_mask"):
        QueueSettings().changed(Queue(), [path])


@given(SETTINGS, SETTINGS)
def test_holds_end_when_more_may_start(before: QueueSettings, after: QueueSettings) -> None:
    ended = before.holds_ended_by(after)
    assert ("QUEUE_PAUSED" in ended) is not after.dispatch_paused
    if after.max_running is None:
        assert "MAX_RUNNING" in ended
    elif before.max_running is not None:
        assert ("MAX_RUNNING" in ended) is (after.max_running > before.max_running)


def test_a_note_lasts_as_long_as_the_pause() -> None:
    paused = QueueSettings(dispatch_paused=True, pause_note="broken")
    assert paused.changed(Queue(max_depth=1), ["max_depth"]).pause_note == "broken"
    assert paused.changed(Queue(), ["dispatch_paused"]).pause_note == ""


@given(st.text(), st.text())
def test_a_token_stands_for_its_queue_alone(namespace: str, queue: str) -> None:
    token = queue_token(namespace, queue)
    assert len(token) == 16
    assert set(token) <= set("0123456789abcdef")
    assert token != queue_token(namespace, queue + "x")


def test_a_token_never_changes() -> None:
    assert queue_token("default", "default") == "c3ca73efbe11d0c4"
