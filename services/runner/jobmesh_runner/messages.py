"""What handlers say, as it travels."""

from __future__ import annotations

import logging
from typing import NamedTuple

from jobmesh.v1.job_pb2 import LogLevel, Progress
from jobmesh.v1.runner_service_pb2 import LogReport
from jobmesh_runner.attempt import Attempt, LatestProgress


class Line(NamedTuple):
    """A log line as the handler wrote it."""

    level: int
    message: str
    time_ns: int


def progress_message(latest: LatestProgress) -> Progress:
    """Progress as it travels."""
    message = Progress(
        fraction=latest.fraction,
        message=latest.message,
        current=latest.current,
        total=latest.total,
    )
    message.update_time.FromNanoseconds(latest.time_ns)
    return message


def log_report(attempt: Attempt, line: Line) -> LogReport:
    """A line as it travels."""
    report = LogReport(lease=attempt.lease, level=_level(line.level), message=line.message)
    report.time.FromNanoseconds(line.time_ns)
    return report


def _level(level: int) -> LogLevel.ValueType:
    if level >= logging.ERROR:
        return LogLevel.LOG_LEVEL_ERROR
    if level >= logging.WARNING:
        return LogLevel.LOG_LEVEL_WARNING
    if level >= logging.INFO:
        return LogLevel.LOG_LEVEL_INFO
    return LogLevel.LOG_LEVEL_DEBUG
