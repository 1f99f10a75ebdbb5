"""A failure of a whole mesh says what its processes said."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from tests.support.fleet import Fleet


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        values: dict[str, Any] = getattr(item, "funcargs", {})
        for name, value in values.items():
            if isinstance(value, Fleet):
                report.sections.append((f"warnings of {name}", value.trouble()))
    return report
