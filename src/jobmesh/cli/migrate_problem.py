"""What is wrong with a database that cannot be migrated, in words without its password."""

from __future__ import annotations

import re

import click
from asyncpg import exceptions as postgres

from jobmesh.errors import JobmeshError

EXPECTED = (
    *(OSError, ValueError, OverflowError, JobmeshError),
    *(postgres.PostgresError, postgres.InterfaceError, postgres.InternalClientError),
)
_MALFORMED = (
    "postgres_dsn is no URL of PostgreSQL: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
    "with % / ? # and @ in a password as %25 %2F %3F %23 and %40"
)
_USER = re.compile(r"://.*@")


def told(error: Exception) -> click.ClickException:
    """One of ``EXPECTED`` as the error that the command ends with."""
    match error:
        case TimeoutError():
            return click.ClickException(
                "the database did not answer in time: is it the right host and port, and is no "
                "other migration running?"
            )
        case OSError():
            return click.ClickException(f"the database cannot be reached: {error}")
        case postgres.PostgresError():
            return click.ClickException(f"the database refuses: {error}")
        case postgres.ClientConfigurationError():
            return click.UsageError(f"postgres_dsn: {error}")
        case ValueError() | OverflowError():  # whose words may hold a part of the password
            return click.UsageError(_MALFORMED)
        case _:  # dbmate's words, which may hold the URL
            return click.ClickException(_USER.sub("://***@", str(error)))
