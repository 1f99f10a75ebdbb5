"""How much of a table a statement reads, as PostgreSQL counts it."""

from __future__ import annotations

import json
from typing import Any

import asyncpg


async def rows_read(
    connection: asyncpg.Connection, relation: str, statement: str, *arguments: object
) -> int:
    """Rows of a table, and entries of its indexes, that a statement looks at; undone."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        text = await connection.fetchval(
            "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) " + statement, *arguments
        )
    finally:
        await transaction.rollback()
    return _read_by(json.loads(text)[0]["Plan"], relation)


def _read_by(node: dict[str, Any], relation: str) -> int:
    read = sum(_read_by(child, relation) for child in node.get("Plans", ()))
    if "Scan" in node["Node Type"] and node.get("Relation Name") == relation:
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        read += round((rows + node.get("Rows Removed by Index Recheck", 0)) * node["Actual Loops"])
    return read
