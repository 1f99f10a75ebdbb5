"""What a list of jobs asks of the database: the arguments of `list_jobs_*.sql`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from jobmesh.states import LEASED, WAITING_FOR_TIME
from jobmesh.v1.job_pb2 import JobState

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

    from jobmesh.page_token import JobPosition
    from jobmesh.v1.job_pb2 import JobFilter

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)


def matches_nothing(wanted: JobFilter) -> bool:
    """Whether no job can match: none has a shard key yet."""
    return bool(wanted.shard_key)


def position_arguments(position: JobPosition | None) -> tuple[object, ...]:
    """$5 and $6."""
    if position is None:
        return None, None
    return _EPOCH + timedelta(microseconds=position.create_time_us), UUID(position.job_id)


def filter_arguments(wanted: JobFilter) -> tuple[object, ...]:
    """$7 to $20. Empty fields are NULL: they ask for nothing."""
    states = [JobState.Name(state).removeprefix("JOB_STATE_") for state in wanted.states]
    return (
        list(wanted.queues) or None,
        list(wanted.types) or None,
        states or None,
        msgspec.json.encode(dict(wanted.labels)).decode() if wanted.labels else None,
        wanted.runner_id or None,
        wanted.schedule_id or None,
        UUID(wanted.parent_job_id) if wanted.parent_job_id else None,
        _time(wanted, "create_time_from"),
        _time(wanted, "create_time_to"),
        _time(wanted, "end_time_from"),
        _time(wanted, "end_time_to"),
        wanted.error_type or None,
        bool(states) and LEASED.issuperset(states),
        bool(states) and WAITING_FOR_TIME.issuperset(states),
    )


def _time(wanted: JobFilter, field: str) -> datetime | None:
    """Rounded up to what is stored, microseconds, so that `from` and `to` keep their meaning."""
    if not wanted.HasField(field):  # type: ignore[arg-type]
        return None
    time: Timestamp = getattr(wanted, field)
    try:
        return _EPOCH + timedelta(seconds=time.seconds, microseconds=-(-time.nanos // 1000))
    except OverflowError:
        return _LAST
