"""The plots of the report as SVG, ready to be set into a page.

matplotlib is imported where it draws: a runner that only imports flights never loads it.
Nothing here touches its global state, so that plots can be drawn in threads.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

from examples.flights.report import MONTHS, Report, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
INK, FAINT, LINE = "#1c2733", "#5b6875", "#d9dfe5"
LATE, EARLY, CANCELLED = "#c2410c", "#1d6fa5", "#6d4aa2"
Draw = Callable[[Report], str]
HEATMAP_LIMIT = 30
"""Minutes at which the colours of the heatmap end."""


def delay_bars(report: Report) -> str:
    """Mean delay of each carrier, the latest at the top."""
    carriers = report.carriers[::-1]
    delays = [carrier.mean_delay for carrier in carriers]
    figure, axes = canvas(width=9.2, height=0.34 * len(carriers) + 0.7)
    colours = [LATE if delay > 0 else EARLY for delay in delays]
    bars = axes.barh(range(len(carriers)), delays, color=colours, height=0.68)
    axes.set_yticks(range(len(carriers)), [carrier.name for carrier in carriers])
    axes.bar_label(bars, fmt="{:+.1f}", padding=4, color=INK, fontsize=9)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.margins(x=0.1, y=0.02)
    axes.set_xlabel("mean arrival delay, minutes", color=FAINT)
    axes.xaxis.grid(True, color=LINE)
    return to_svg(figure, "bars", "Bar chart: mean arrival delay of each carrier, in minutes.")


def heatmap(report: Report) -> str:
    """Mean delay of each carrier in each month, with the number in each cell."""
    from matplotlib.colors import Normalize

    rows = [report.row(carrier) for carrier in report.carriers]
    cells = [[float("nan") if delay is None else delay for delay in row] for row in rows]
    figure, axes = canvas(width=9.2, height=0.36 * len(rows) + 0.9)
    colours = Normalize(-HEATMAP_LIMIT, HEATMAP_LIMIT)
    axes.pcolormesh(cells, cmap="RdBu_r", norm=colours, edgecolors="white", linewidth=1.5)
    axes.set_xticks([month - 0.5 for month in MONTHS], MONTH_NAMES)
    axes.set_yticks(
        [index + 0.5 for index in range(len(rows))], [carrier.name for carrier in report.carriers]
    )
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for y, row in enumerate(rows):
        for x, delay in enumerate(row):
            write_cell(axes, x, y, delay)
    about = "Heatmap: mean arrival delay by carrier and month, in minutes. The table below has it."
    return to_svg(figure, "heatmap", about)


def write_cell(axes: Axes, x: int, y: int, delay: float | None) -> None:
    text = "–" if delay is None else str(round(delay))
    pale = delay is None or abs(delay) < 0.62 * HEATMAP_LIMIT
    colour = FAINT if delay is None else INK if pale else "white"
    axes.text(x + 0.5, y + 0.53, text, ha="center", va="center", fontsize=8.5, color=colour)


def cancelled_bars(report: Report) -> str:
    """Share of cancelled flights in each month."""
    shares = [share(month.cancelled, month.flights) for month in report.months]
    names = [MONTH_NAMES[month.month - 1] for month in report.months]
    figure, axes = canvas(width=9.2, height=2.7)
    bars = axes.bar(range(len(names)), shares, color=CANCELLED, width=0.68)
    axes.set_xticks(range(len(names)), names)
    axes.bar_label(bars, fmt="{:.1f} %", padding=3, color=INK, fontsize=9)
    axes.margins(y=0.15)
    axes.set_ylabel("cancelled, % of flights", color=FAINT)
    axes.yaxis.grid(True, color=LINE)
    return to_svg(figure, "cancelled", "Bar chart: share of cancelled flights in each month.")


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty plot of this size in inches, with our looks."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[:].set_visible(False)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=INK, labelsize=9.5)
    return figure, axes


def to_svg(figure: Figure, name: str, about: str) -> str:
    """`name` keeps the ids of several plots in one page apart; `about` is read aloud."""
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    label = f'<svg role="img" aria-label="{escape(about, quote=True)}" '
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", label + svg.removeprefix("<svg "))
