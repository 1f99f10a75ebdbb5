"""The runner's process."""

from __future__ import annotations

import logging

from jobmesh.server import logs, tracing
from jobmesh_runner.app_loading import BadApp, load_tasks
from jobmesh_runner.config import RunnerConfig
from jobmesh_runner.runner import NAME, Runner

log = logging.getLogger(__name__)

EXIT_UNUSABLE = 1


def run(config: RunnerConfig) -> int:
    """Serve the app until SIGTERM or SIGINT; the exit code."""
    logs.configure(NAME)
    tracing.configure(NAME)
    try:
        tasks = load_tasks(config.app)
    except BadApp as error:
        log.critical("%s", error, exc_info=error.__cause__)
        return EXIT_UNUSABLE
    try:
        return Runner(config, tasks).run()
    finally:
        tracing.shutdown()
