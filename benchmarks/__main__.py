"""``python -m benchmarks``: measure, print, and say by the exit code whether targets are met."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

import uvloop
from rich.console import Console

from benchmarks.measures import NAMES
from benchmarks.run import run
from benchmarks.scale import FULL, SMOKE
from benchmarks.table import show

MISSED = 1


def main(arguments: list[str] | None = None) -> int:
    """0 if every target is met (or with ``--smoke``, whatever the figures), else 1."""
    options = _parser().parse_args(arguments)
    scale = SMOKE if options.smoke else FULL
    if options.rounds:
        scale = dataclasses.replace(scale, rounds=options.rounds)
    errors = Console(stderr=True)
    figures = uvloop.run(run(scale, options.only, errors.print))
    if options.json:
        print(json.dumps([figure.as_json() for figure in figures], indent=2))
    else:
        # Wide enough for the names where nobody's terminal says how wide it is.
        show(figures, Console(width=None if sys.stdout.isatty() else 130))
    missed = [figure.name for figure in figures if not figure.ok]
    if missed and not options.smoke:
        errors.print(f"missed: {', '.join(missed)}")
        return MISSED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", default=[], choices=NAMES, help="measure this")
    parser.add_argument("--rounds", type=int, default=0, help="how often (default: 3)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--smoke", action="store_true", help="small sizes, to see that it works; judges no target"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
