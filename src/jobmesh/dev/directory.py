"""The data directory of one `jobmesh dev`: what lies where, and the lock that keeps others out."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jobmesh.dev.errors import DevError
from jobmesh.dev.paths import prepare_directory


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """Paths below one root."""

    root: Path

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def nats(self) -> Path:
        return self.root / "nats"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def ready(self) -> Path:
        """A ready file that is always written, for `--detach` and `jobmesh dev stop`."""
        return self.root / "ready.json"

    @property
    def _lock(self) -> Path:
        return self.root / "lock"

    def log(self, process: str) -> Path:
        """Where a process writes."""
        return self.logs / f"{process}.log"

    def prepare(self) -> None:
        """Make it, closed to others, and unknown to git: it holds a password."""
        try:
            prepare_directory(self.root)
            self.logs.mkdir(mode=0o700, exist_ok=True)
            (self.root / ".gitignore").write_text("*\n")
        except OSError as error:
            raise DevError(f"cannot use {self.root} for data: {error.strerror}") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory; the lock ends with this process, however that ends.

        :raises DevError: if another `jobmesh dev` holds it.
        """
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _try_lock(descriptor):
                raise DevError(
                    f"jobmesh dev already runs on {self.root} (process {self._holder()}): stop it "
                    f"by `jobmesh dev stop --data {self.root}`, or choose another --data"
                )
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def running(self) -> int | None:
        """Process id of the `jobmesh dev` that holds the directory now."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return None if _try_lock(descriptor) else self._holder()
        finally:
            os.close(descriptor)

    def _holder(self) -> int:
        text = self._lock.read_text().strip()
        return int(text) if text.isdigit() else 0


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
