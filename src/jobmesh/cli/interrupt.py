"""What Ctrl-C leaves behind: a word on how to go on."""

from __future__ import annotations

import click

from jobmesh.cli import exits

_how_to_go_on: list[str] = []


def say_on_interrupt(text: str) -> None:
    """Print this, should the command be interrupted from now on."""
    _how_to_go_on[:] = [text]


def leave() -> int:
    """Say it; the exit code."""
    for text in _how_to_go_on:
        click.echo(text, err=True)
    return exits.INTERRUPTED
