"""Hurt a mesh by hand: `python -m tests.faults --seed 7 --minutes 10`."""

from __future__ import annotations

import asyncio
import secrets
import sys
from pathlib import Path

import click

from tests.faults import plan, report
from tests.faults.chaos import Timeline
from tests.faults.session import Script, play


def say(text: str) -> None:
    """Print a line, and at once."""
    click.echo(text)
    sys.stdout.flush()


@click.command(context_settings={"show_default": True})
@click.option("--seed", type=int, help="the same seed is the same plan; drawn if left out")
@click.option("--minutes", type=float, default=2.0, help="how long faults and calls go on")
@click.option("--rate", type=float, default=60.0, help="jobs a second")
@click.option("--faults", type=float, default=12.0, help="faults a minute")
@click.option("--kinds", default="", help="some kinds only, e.g. runner,nats.wipe")
@click.option("--keep", type=click.Path(path_type=Path), help="keep logs and data in here")
def main(
    seed: int | None, minutes: float, rate: float, faults: float, kinds: str, keep: Path | None
) -> None:
    """Run a mesh of two of each service under load, hurt it, and check what became of it.

    Exit code 1: a promise was broken, and which.
    """
    try:
        chosen = plan.chosen([kind.strip() for kind in kinds.split(",") if kind.strip()])
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    script = Script(
        seed=secrets.randbelow(1_000_000) if seed is None else seed,
        seconds=minutes * 60,
        rate=rate,
        faults_a_minute=faults,
        kinds=chosen,
        directory=keep,
    )
    say(f"seed {script.seed}; the plan:")
    for fault in script.faults():
        say(f"  {fault}")
    # Not on uvloop: what it forks runs gRPC's handlers of forks, and has crashed in them.
    verdict = asyncio.run(play(script, Timeline(say)))
    for line in (*report.summary(verdict), *report.violations(verdict)):
        say(line)
    if verdict.violations:
        say(f"seed {script.seed}: {len(verdict.violations)} violations")
        sys.exit(1)


if __name__ == "__main__":
    main()
