"""Settings of ``jobmesh migrate``."""

from __future__ import annotations

from dataclasses import dataclass

from jobmesh.server.config import setting


@dataclass(frozen=True, kw_only=True)
class MigrateConfig:
    """Where the database is."""

    postgres_dsn: str = setting(secret=True, help="URL of PostgreSQL, with a user who may migrate")
