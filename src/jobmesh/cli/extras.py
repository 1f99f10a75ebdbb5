"""Imports what an extra brings, or says how to install it."""

from __future__ import annotations

import importlib
from types import ModuleType

import click


def import_from_extra(module: str, extra: str) -> ModuleType:
    """The module.

    Raises:
        click.ClickException: a package of the extra is missing; the message has the command.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0].startswith("jobmesh"):
            raise  # ours: a defect, or an installation that is broken
        raise click.ClickException(
            f"{error.name} is missing; install it with: pip install 'jobmesh[{extra}]'"
        ) from None
