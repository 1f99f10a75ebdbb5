"""The handlers of the flights example, without a mesh around them."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.flights.app import app, import_flights, report_delays
from examples.flights.database import NoDatabase, connected
from jobmesh import PermanentError
from jobmesh.testing import Setting, run_task

ROWS = 336_776
START = ROWS - 2_500


@pytest.fixture(autouse=True)
def flights_dsn(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLIGHTS_DSN", dsn)


def test_the_app_knows_its_tasks() -> None:
    assert set(app.tasks) == {"flights.import", "flights.report"}


async def test_the_import_goes_on_from_its_checkpoint(dsn: str) -> None:
    setting = Setting(attempt=2, restored={"next_row": START})
    run = await run_task(import_flights, setting, batch_rows=1000)
    assert run.result == {"rows": ROWS, "started_at": START, "inserted": 2_500}
    assert [point["next_row"] for point in run.checkpoints] == [START + 1000, START + 2000, ROWS]
    assert [step.current for step in run.progress] == [START + 1000, START + 2000, ROWS]
    assert run.progress[-1] == (1.0, "336,776 of 336,776 rows", ROWS, ROWS)
    async with connected(dsn) as connection:
        assert await connection.fetchval("SELECT min(line) FROM flights") == START + 1
        assert await connection.fetchval("SELECT count(*) FROM airlines") == 16


@pytest.mark.parametrize("batch_rows", [0, -5, 1_000_000])
async def test_a_senseless_batch_is_refused_for_good(batch_rows: int) -> None:
    with pytest.raises(PermanentError, match="batch_rows must be 1 to 20,000"):
        await run_task(import_flights, batch_rows=batch_rows)


async def test_the_report_is_written_whole(tmp_path: Path) -> None:
    await run_task(import_flights, Setting(restored={"next_row": START}))
    path = tmp_path / "made" / "report.html"
    run = await run_task(report_delays, path=str(path))
    html = path.read_text()
    assert run.result == {"path": str(path), "bytes": path.stat().st_size, "flights": 2_500}
    assert "<dd>2,500</dd>" in html
    assert html.count('<svg role="img"') == 3
    fractions = [step.fraction for step in run.progress]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


async def test_there_is_no_report_before_the_import(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="no flights have been imported"):
        await run_task(report_delays, path=str(tmp_path / "report.html"))


async def test_without_a_database_it_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FLIGHTS_DSN")
    with pytest.raises(NoDatabase, match="FLIGHTS_DSN"):
        await run_task(report_delays, path=str(tmp_path / "report.html"))
