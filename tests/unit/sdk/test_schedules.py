"""`@app.schedule`: what is declared, and mistakes told where they are made."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobmesh import App, JobContext
from jobmesh.client.schedule_message import schedule_message
from jobmesh.client.schedules import schedule_info
from jobmesh.declared import InvalidSchedule


def app_with_task() -> App:
    app = App()

    @app.schedule("0 2 * * *", time_zone="Europe/Berlin", arguments={"rows": 5}, overlap="allow")
    @app.task("report", queue="slow")
    async def report(job: JobContext, rows: int) -> None: ...

    return app


def test_a_declared_schedule_becomes_a_message() -> None:
    (declared,) = app_with_task().schedules.values()
    message = schedule_message(
        declared.schedule_id, declared.task, declared.arguments, **dict(declared.settings)
    )
    assert message.schedule_id == "report"
    assert message.include[0].cron == "0 2 * * *"
    assert message.time_zone == "Europe/Berlin"
    assert (message.job.type, message.job.queue) == ("report", "slow")
    assert message.job.payload.data == b'{"rows":5}'


def test_apps_put_together_have_all_schedules() -> None:
    together = App()
    together.include(app_with_task())
    assert list(together.schedules) == ["report"]


def test_mistakes_are_told_at_once() -> None:
    app = app_with_task()
    task = app.tasks["report"]
    with pytest.raises(InvalidSchedule, match="declared already"):
        app.schedule("0 3 * * *")(task)
    with pytest.raises(InvalidSchedule, match="at character 3"):
        app.schedule("0 25 * * *", schedule_id="other")(task)
    with pytest.raises(InvalidSchedule, match="no IANA time zone"):
        app.schedule("0 2 * * *", schedule_id="other", time_zone="Mars")(task)
    with pytest.raises(InvalidSchedule, match="stands above"):
        app.schedule("0 2 * * *")(len)  # type: ignore[arg-type]
    assert list(app.schedules) == ["report"]


def test_specs_are_shown_as_they_are_written() -> None:
    at = {"at": "2026-11-30T18:00+01:00"}
    message = schedule_message(
        "s", "t", cron="0 2 * * *", every=timedelta(minutes=90), include=[at]
    )
    shown = ["0 2 * * *", "every 1h30m", "at 2026-11-30T17:00:00Z"]
    assert schedule_info(message).specs == shown
