"""Whether the service can do its work now: named checks, run together, remembered for a moment."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

log = logging.getLogger(__name__)

Check = Callable[[], Awaitable[object]]

# Whoever waits for a start asks again and again: it is to hear of it when it happens.
FAILED_SECONDS = 0.1


@dataclass(frozen=True)
class Report:
    """The outcome of all checks: ``failed`` says, by name, what is wrong."""

    checks: tuple[str, ...]
    failed: dict[str, str]

    @property
    def ready(self) -> bool:
        """Whether all checks passed."""
        return not self.failed


class Readiness:
    """Runs the checks when asked, at most every ``max_age_seconds``, and never twice at a time.

    What is not ready is looked at again sooner, after ``FAILED_SECONDS``.

    A check fails by raising, by returning ``False``, or by taking longer than ``timeout_seconds``.
    """

    def __init__(self, *, timeout_seconds: float = 2.0, max_age_seconds: float = 1.0) -> None:
        self._timeout = timeout_seconds
        self._max_age = max_age_seconds
        self._checks: dict[str, Check] = {}
        self._draining = False
        self._last: Report | None = None
        self._read_at = 0.0
        self._reading: asyncio.Task[Report] | None = None

    def add(self, name: str, check: Check) -> None:
        """Make readiness depend on ``check``."""
        self._checks[name] = check
        self._last = None

    def set_draining(self) -> None:
        """Be not ready from now on, since the service stops."""
        self._draining = True

    async def report(self) -> Report:
        """The present state, at most ``max_age_seconds`` old."""
        if self._draining:
            return Report(tuple(self._checks), {"draining": "the service is stopping"})
        if self._last is not None and time.monotonic() - self._read_at < self._keeps(self._last):
            return self._last
        if self._reading is None:
            self._reading = asyncio.create_task(self._read(), name="readiness")
            self._reading.add_done_callback(self._forget)
        # Shielded: others wait for the same reading when one prober hangs up.
        return await asyncio.shield(self._reading)

    def _keeps(self, report: Report) -> float:
        return self._max_age if report.ready else min(self._max_age, FAILED_SECONDS)

    async def stop(self) -> None:
        """End a reading that is under way."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    def _forget(self, reading: asyncio.Task[Report]) -> None:
        self._reading = None

    async def _read(self) -> Report:
        names = tuple(self._checks)
        problems = await asyncio.gather(*(self._run(self._checks[name]) for name in names))
        failed = {name: why for name, why in zip(names, problems, strict=True) if why}
        report = Report(names, failed)
        self._log_change(report)
        self._last, self._read_at = report, time.monotonic()
        return report

    async def _run(self, check: Check) -> str:
        try:
            async with asyncio.timeout(self._timeout) as limit:
                return "failed" if await check() is False else ""
        except TimeoutError:
            return f"no answer in {self._timeout:g} s" if limit.expired() else "timed out"
        except Exception as error:
            log.debug("a readiness check failed", exc_info=error)
            # The kind only: a driver's message may hold addresses or credentials.
            return type(error).__name__

    def _log_change(self, report: Report) -> None:
        before = self._last.failed if self._last else {}
        for name in report.failed.keys() - before.keys():
            log.warning("not ready: %s: %s", name, report.failed[name])
        for name in before.keys() - report.failed.keys():
            log.info("ready again: %s", name)
