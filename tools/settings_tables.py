"""Writes the tables of settings into docs/operating.md: `python -m tools.settings_tables`."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from jobmesh.server.config import settings_of

PAGE = Path(__file__).parents[1] / "docs" / "operating.md"
SERVICES = ("gateway", "dispatcher", "runner", "scheduler")
_TABLE = r"(<!-- settings of the {} -->\n).*?(<!-- end -->)"


def table(service: str) -> str:
    """The settings of a service as a Markdown table."""
    module = importlib.import_module(f"jobmesh_{service}.config")
    config: type[Any] = getattr(module, f"{service.title()}Config")
    rows = [
        f"| `{info.env}` | {info.help} | {_default(info.shown_default, info.required)} |"
        for info in settings_of(config)
    ]
    return "\n".join(["| variable | meaning | default |", "| --- | --- | --- |", *rows, ""])


def with_tables(page: str) -> str:
    """The page with all its tables as they should be."""
    for service in SERVICES:
        found = re.search(_TABLE.format(service), page, re.DOTALL)
        if found is None:
            raise SystemExit(f"{PAGE.name} has no place for the settings of the {service}")
        page = page[: found.start()] + found[1] + table(service) + found[2] + page[found.end() :]
    return page


def _default(shown: str, required: bool) -> str:
    if required:
        return "required"
    return f"`{shown}`" if shown else ""


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
