"""`jobmesh migrate` against a real PostgreSQL that does not let it in."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from tests.support import forked
from tests.support.process import clean_environment


async def migrate(dsn: str) -> tuple[int, str]:
    environment = clean_environment() | {"JOBMESH_POSTGRES_DSN": dsn}
    code, _, err = await forked.run(["migrate"], environment, "", 30.0)
    return code, err


async def test_a_wrong_password_is_told_but_not_shown(database: str) -> None:
    parts = urlsplit(database)
    netloc = f"{parts.username}:s3cret@{parts.hostname}:{parts.port}"
    code, err = await migrate(urlunsplit(parts._replace(netloc=netloc)))
    refusal = f'password authentication failed for user "{parts.username}"'
    assert (code, err) == (2, f"Error: the database refuses: {refusal}\n")


async def test_a_database_that_does_not_exist_is_told(database: str) -> None:
    code, err = await migrate(urlunsplit(urlsplit(database)._replace(path="/absent")))
    assert (code, err) == (2, 'Error: the database refuses: database "absent" does not exist\n')


async def test_a_database_that_lets_it_in_is_up_to_date(database: str) -> None:
    assert await migrate(database) == (0, "")
