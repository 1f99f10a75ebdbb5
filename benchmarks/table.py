"""The figures for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure


def show(figures: list[Figure], console: Console) -> None:
    """Print a table."""
    table = Table(title="jobmesh beside its floors (medians)", title_justify="left")
    table.add_column("figure")
    for column in ("ours", "floor", "ratio"):
        table.add_column(column, justify="right")
    table.add_column("target")
    table.add_column("ok")
    for figure in figures:
        table.add_row(*_cells(figure))
    console.print(table)


def _cells(figure: Figure) -> tuple[str, ...]:
    floor, ratio = figure.floor_value, figure.ratio
    return (
        figure.name,
        f"{_number(figure.value)} {figure.unit}",
        ""
        if floor is None
        else f"{_number(floor)}{'/s' if figure.unit.endswith('/s') else f' {figure.unit}'}",
        "" if ratio is None else f"{ratio:.2f}",
        figure.target,
        "" if figure.target == "–" else ("yes" if figure.ok else "NO"),
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
