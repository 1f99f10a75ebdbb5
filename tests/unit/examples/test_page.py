"""The report's page: complete, well-formed, and safe whatever a carrier is called."""

from __future__ import annotations

import re
from datetime import date
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from examples.flights import plots
from examples.flights.page import Plots, page
from examples.flights.report import Carrier, Month, Report, Totals, share

NASTY = '<script>"Air" & Sons</script>'
VOID = {"meta", "link", "br", "img", "path", "use", "rect"}


def small_report() -> Report:
    return Report(
        totals=Totals(10, 2, 8, 4.25, 3, 12_000_000, date(2013, 1, 1), date(2013, 2, 1)),
        carriers=(
            Carrier("NA", NASTY, 6, 1, 5, 12.5, 3),
            Carrier("EA", "Early Air", 4, 1, 3, -3.75, 0),
        ),
        months=(Month(1, 6, 2, 9.0), Month(2, 4, 0, -1.0)),
        delays={("NA", 1): 45.2, ("EA", 2): -0.2},
    )


@pytest.fixture(scope="module")
def html() -> str:
    found = small_report()
    drawn = (plots.delay_bars(found), plots.heatmap(found), plots.cancelled_bars(found))
    return page(found, Plots(*drawn))


class Nesting(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def test_the_page_is_well_formed_and_its_ids_unique(html: str) -> None:
    parser = Nesting()
    parser.feed(html)
    assert parser.open == []
    assert sorted(set(parser.ids)) == sorted(parser.ids)
    referred = re.findall(r'(?:href="|url\(|labelledby=")#?([\w-]+)', html)
    assert set(referred) <= set(parser.ids)


def test_names_are_escaped(html: str) -> None:
    parser = Nesting()
    parser.feed(html)
    assert parser.scripts == 0
    assert "&lt;script&gt;" in html


def test_nothing_is_loaded_from_elsewhere(html: str) -> None:
    assert re.findall(r'(?:src|href)="(?!#)', html.replace("xlink:", "")) == []


def test_the_figures_are_those_of_the_report(html: str) -> None:
    assert "January 2013 to February 2013" in html
    for value in ("10", "+4.2 min", "37.5 %", "20.0 %", "12 million"):
        assert f"<dd>{value}</dd>" in html
    assert "<b>Early Air</b> did best, 3.8 minutes early" in html
    assert "<b>January</b> saw the most cancellations, 33.3 % of its flights" in html


@pytest.mark.parametrize("draw", [plots.delay_bars, plots.heatmap, plots.cancelled_bars])
def test_a_plot_is_an_image_with_a_description(draw: plots.Draw) -> None:
    svg = ElementTree.fromstring(draw(small_report()))
    assert svg.get("role") == "img"
    assert "chart" in svg.get("aria-label", "") or "Heatmap" in svg.get("aria-label", "")


def test_a_share_of_nothing_is_nothing() -> None:
    assert share(0, 0) == 0.0
    assert share(1, 4) == 25.0
