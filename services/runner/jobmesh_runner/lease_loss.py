"""Telling a handler that waits for its checkpoint that the job is no longer its own."""

from __future__ import annotations

from concurrent.futures import Future

from jobmesh.errors import LeaseLost
from jobmesh_runner.attempt import Attempt


def lease_lost(attempt: Attempt, done: Future[None]) -> None:
    """Fail the future, unless nobody waits for it any more."""
    if done.set_running_or_notify_cancel():
        done.set_exception(LeaseLost(*attempt.key))
