"""``jobmesh migrate``."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from jobmesh.cli.extras import import_from_extra
from jobmesh.cli.settings_options import load_settings, options_of


def migrate() -> click.Command:
    """The command, with the dispatcher's setting of the database."""
    config = import_from_extra("jobmesh.cli.migrate_config", "server").MigrateConfig

    def run(**flags: Any) -> None:
        settings = load_settings(config, "dispatcher", flags)
        module = import_from_extra("jobmesh_dispatcher.migrate", "server")
        problem = import_from_extra("jobmesh.cli.migrate_problem", "server")
        try:
            asyncio.run(module.migrate(settings.postgres_dsn))
        except problem.EXPECTED as error:
            raise problem.told(error) from None
        click.echo("the database is up to date")

    return click.Command(
        "migrate",
        callback=run,
        params=options_of(config),
        help="Bring the database to this version. Safe to run again, and by several at once.",
    )
