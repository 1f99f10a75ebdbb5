"""The report as one self-contained HTML page."""

from __future__ import annotations

from calendar import month_name
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from string import Template

from examples.flights.plots import MONTH_NAMES
from examples.flights.report import Carrier, Report, Totals, share


@dataclass(frozen=True, slots=True)
class Plots:
    """The plots of `plots`, as SVG."""

    delay_bars: str
    heatmap: str
    cancelled_bars: str


def page(report: Report, plots: Plots) -> str:
    return template().substitute(
        period=period(report.totals),
        figures="\n".join(figures(report.totals)),
        findings="\n".join(f"<li>{finding}</li>" for finding in findings(report)),
        delay_bars=plots.delay_bars,
        heatmap=plots.heatmap,
        cancelled_bars=plots.cancelled_bars,
        carriers="\n".join(carrier_row(carrier) for carrier in report.carriers),
        months="".join(f'<th scope="col">{name}</th>' for name in MONTH_NAMES),
        delays="\n".join(delay_row(report, carrier) for carrier in report.carriers),
    )


@cache
def template() -> Template:
    return Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


def period(totals: Totals) -> str:
    first, last = f"{totals.first_month:%B %Y}", f"{totals.last_month:%B %Y}"
    return first if first == last else f"{first} to {last}"


def figures(totals: Totals) -> Iterable[str]:
    yield figure(f"{totals.flights:,}", "flights planned")
    yield figure(f"{totals.mean_delay:+.1f} min", "mean arrival delay")
    yield figure(percent(totals.late, totals.arrived), "of arrivals over 15 min late")
    yield figure(percent(totals.cancelled, totals.flights), "of flights cancelled")
    yield figure(f"{totals.miles / 1e6:,.0f} million", "miles flown")


def figure(value: str, meaning: str) -> str:
    return f"<div><dt>{meaning}</dt><dd>{value}</dd></div>"


def findings(report: Report) -> Iterable[str]:
    """A sentence for each thing worth seeing at once."""
    latest, earliest = report.carriers[0], report.carriers[-1]
    yield (
        f"<b>{escape(latest.name)}</b> arrived latest, {minutes(latest.mean_delay)} on average; "
        f"<b>{escape(earliest.name)}</b> did best, {minutes(earliest.mean_delay)}."
    )
    worst = max(report.months, key=lambda month: month.mean_delay)
    yield f"<b>{month_name[worst.month]}</b> was the latest month, {minutes(worst.mean_delay)}."
    most = max(report.months, key=lambda month: share(month.cancelled, month.flights))
    cancelled = percent(most.cancelled, most.flights)
    yield f"<b>{month_name[most.month]}</b> saw the most cancellations, {cancelled} of its flights."


def minutes(delay: float) -> str:
    return f"{abs(delay):.1f} minutes {'late' if delay > 0 else 'early'}"


def percent(part: int, whole: int) -> str:
    return f"{share(part, whole):.1f} %"


def carrier_row(carrier: Carrier) -> str:
    cells = (
        f"{carrier.flights:,}",
        f"{carrier.mean_delay:+.1f}",
        percent(carrier.late, carrier.arrived),
        percent(carrier.cancelled, carrier.flights),
    )
    return table_row(carrier, cells)


def delay_row(report: Report, carrier: Carrier) -> str:
    return table_row(carrier, ("–" if d is None else f"{d:.1f}" for d in report.row(carrier)))


def table_row(carrier: Carrier, cells: Iterable[str]) -> str:
    head = f'<th scope="row">{escape(carrier.name)}</th>'
    return f"<tr>{head}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
