"""``jobmesh dev``, which the extra ``dev`` brings."""

from __future__ import annotations

import click

from jobmesh.cli.extras import import_from_extra


def load() -> click.Command:
    """The command.

    Raises:
        click.ClickException: the extra is not installed.
    """
    import_from_extra("jobmesh.dev.run", "dev")
    command = import_from_extra("jobmesh.dev.command", "dev").dev
    assert isinstance(command, click.Command)
    return command
