"""Who the caller is, as metadata of each call."""

from __future__ import annotations

from pathlib import Path

from jobmesh.errors import Unauthenticated

Metadata = tuple[tuple[str, str], ...]


class Credentials:
    """A token from a file, and a namespace.

    The file is read again when it changes, so that a token may be replaced under a client that
    lives long. Meshes without authentication ignore both.
    """

    def __init__(self, token_file: Path | None = None, namespace: str = "") -> None:
        self._file = token_file
        self._namespace = namespace
        self._stamp: tuple[int, int] | None = None
        self._metadata: Metadata = self._build("")

    def metadata(self) -> Metadata:
        """What to send along with a call.

        Raises:
            Unauthenticated: the token's file cannot be read, or what is in it cannot be sent; the
                message names the file, and tells nothing of what is in it.
        """
        if self._file is not None:
            self._read(self._file)
        return self._metadata

    def _read(self, file: Path) -> None:
        try:
            stat = file.stat()
            if self._stamp != (stamp := (stat.st_mtime_ns, stat.st_size)):
                self._metadata = self._build(_token_in(file))
                self._stamp = stamp
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise Unauthenticated(f"the token file {file} cannot be read: {why}") from error

    def _build(self, token: str) -> Metadata:
        entries: list[tuple[str, str]] = []
        if token:
            entries.append(("authorization", f"Bearer {token}"))
        if self._namespace:
            entries.append(("jobmesh-namespace", self._namespace))
        return tuple(entries)


def _token_in(file: Path) -> str:
    # Looked at here: gRPC would refuse it with an error that names neither file nor reason.
    data = file.read_bytes().strip()
    if not (data.isascii() and data.decode("ascii").isprintable()):
        raise Unauthenticated(
            f"the token file {file} cannot be used: a token is one line of printable ASCII"
        )
    return data.decode("ascii")
