"""What is told of a database that cannot be migrated: what is wrong, and never the password."""

from __future__ import annotations

import pytest
from asyncpg import exceptions as postgres

from jobmesh.cli import exits
from jobmesh.cli.main import run
from jobmesh.cli.migrate_problem import EXPECTED, told
from jobmesh_dispatcher.migrate import MigrationFailed

URL = "postgresql://u:s3cret@h/d"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError(), "the database did not answer in time: is it the right host and port"),
        (ConnectionRefusedError(111, "refused"), "the database cannot be reached: [Errno 111] ref"),
        (
            postgres.InvalidPasswordError('password authentication failed for user "u"'),
            'the database refuses: password authentication failed for user "u"',
        ),
        (
            postgres.InvalidCatalogNameError('database "d" does not exist'),
            'the database refuses: database "d" does not exist',
        ),
        (postgres.InterfaceError("connection is closed"), "connection is closed"),
        (postgres.InternalClientError("no address"), "no address"),
        (MigrationFailed(f'parse "{URL}": invalid'), 'parse "postgresql://***@h/d": invalid'),
    ],
)
def test_what_is_wrong_with_a_database_is_told(error: Exception, text: str) -> None:
    assert isinstance(error, EXPECTED)
    problem = told(error)
    assert problem.message.startswith(text)
    assert "s3cret" not in problem.message


@pytest.mark.parametrize(
    ("dsn", "text"),
    [
        ("postgresql://u:s3cret/@h/d", "%2F"),
        ("postgresql://u:s#3cret@h/d", "%23"),
        ("postgresql://u:s?3cret@h/d", "%3F"),
        ("postgresql://u:s3cret@127.0.0.1:99999/d", "HOST:PORT"),
        ("mysql://u:s3cret@h/d", "got 'mysql'"),
        ("postgresql://u:s3cret@h/d?sslmode=no", "`sslmode` parameter must be one of: disable"),
    ],
)
def test_a_dsn_that_is_none_is_a_wrong_setting(
    dsn: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["migrate", "--postgres-dsn", dsn]) == exits.WRONG_COMMAND_LINE
    told = capsys.readouterr()
    assert text in told.err
    assert "3cret" not in told.err
