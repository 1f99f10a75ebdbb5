"""The row by which schedulers agree on who leads."""

from __future__ import annotations

from dataclasses import dataclass

from asyncpg import exceptions

from jobmesh_scheduler import statements
from jobmesh_scheduler.database import Database

ROLE = "scheduler"


class NoLeadershipRow(Exception):
    """The database has not been migrated."""

    def __init__(self, role: str) -> None:
        self.role = role
        super().__init__(f"jobmesh.leadership has no row {role}: run `jobmesh migrate`")


@dataclass(frozen=True, slots=True)
class Ballot:
    """The row as it was read."""

    epoch: int
    counter: int
    holder: str | None


class BallotBox:
    """Reads and changes the row on behalf of ``holder``, which is one life of a process."""

    def __init__(self, database: Database, holder: str, *, role: str = ROLE) -> None:
        self.holder = holder
        self._database = database
        self._role = role

    async def read(self) -> Ballot:
        """The row now.

        :raises NoLeadershipRow: if there is none; or one of `DATABASE_ERRORS`.
        """
        try:
            row = await self._database.row(statements.READ_LEADERSHIP, self._role)
        except exceptions.UndefinedTableError:
            row = None
        if row is None:
            raise NoLeadershipRow(self._role)
        return Ballot(row["epoch"], row["counter"], row["holder"])

    async def take(self, seen: Ballot) -> int | None:
        """Take over from what was seen; the new epoch, or None if somebody was faster."""
        row = await self._database.row(
            statements.TAKE_LEADERSHIP, self._role, seen.epoch, seen.counter, self.holder
        )
        return None if row is None else int(row["epoch"])

    async def renew(self, epoch: int) -> bool:
        """Give a sign of life; False if the epoch is no longer ours."""
        return await self._guarded(statements.RENEW_LEADERSHIP, epoch)

    async def release(self, epoch: int) -> bool:
        """Give it up; False if it was no longer ours."""
        return await self._guarded(statements.RELEASE_LEADERSHIP, epoch)

    async def _guarded(self, statement: str, epoch: int) -> bool:
        row = await self._database.row(statement, self._role, epoch, self.holder)
        return row is not None
