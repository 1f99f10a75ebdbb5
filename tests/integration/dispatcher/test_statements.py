"""Every statement of the dispatcher is understood by a database of this version's schema."""

from __future__ import annotations

import re

import pytest

from jobmesh_dispatcher.sql import FOLDER, load
from tests.support.job_rows import Connection

NAMES = sorted(path.stem for path in FOLDER.glob("*.sql"))


async def test_there_is_no_statement_that_the_database_refuses(connection: Connection) -> None:
    refused = {}
    for name in NAMES:
        try:
            await connection.prepare(load(name))
        except Exception as error:  # whatever it is, it is about this file
            refused[name] = str(error)
    assert NAMES
    assert not refused


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_says_what_it_is_for_and_what_it_takes(name: str) -> None:
    lines = load(name).splitlines()
    comment = "\n".join(line for line in lines if line.startswith("--"))
    statement = "\n".join(line for line in lines if not line.startswith("--"))
    told, taken = _parameters(comment), _parameters(statement)
    assert lines[0].startswith("-- ")
    assert not told or told == taken


def _parameters(text: str) -> list[str]:
    return sorted(set(re.findall(r"\$\d+", text)))
