from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import ledger
from tests.faults.history import Run


def test_what_is_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger"
    assert ledger.read(path) == []
    monkeypatch.setenv(ledger.VARIABLE, str(path))
    monkeypatch.setattr(ledger, "_file", None)
    ledger.began("a", 1)
    ledger.began("b", 2, restored=3)
    ledger.acknowledged("b", 2, 4)
    ledger.ended("a", 1, "returned")
    first, second = ledger.read(path)
    assert (first.job_id, first.attempt, first.outcome) == ("a", 1, "returned")
    assert first.end is not None
    assert first.end >= first.start
    assert (second.end, second.restored, second.acknowledged) == (None, 3, 4)


def test_two_processes_that_run_the_same_attempt_are_two_runs() -> None:
    text = "began a 1 1.5 7 0\nbegan a 1 2.5 8 0\nended a 1 3.5 7 returned\nended a 1 4"
    assert ledger.parse(text) == [Run("a", 1, 7, 1.5, 3.5, "returned"), Run("a", 1, 8, 2.5)]
