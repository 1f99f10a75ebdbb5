"""The account PostgreSQL runs under: our own, or an unprivileged one when we are root."""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from jobmesh.dev.errors import DevError

CAP_CHOWN = 0
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2
CAP_KILL = 5
CAP_SETGID = 6
CAP_SETUID = 7
CAP_SETPCAP = 8  # to change the bits that `tether` changes
UNPRIVILEGED = "nobody"


@dataclass(frozen=True, slots=True)
class Account:
    """A user to become, and the one capability it keeps if it may not go where it has to."""

    uid: int
    gid: int
    capability: int | None = None


def account_for(data: Path, programs: Path) -> Account | None:
    """The account for a server whose files lie in `data` and whose programs lie in `programs`.

    None is the account of this process. A directory that exists already keeps its owner.

    :raises DevError: if there is none that can reach both.
    """
    owner = data.stat().st_uid if data.exists() else None
    if os.geteuid() != 0:
        _require_own(data, owner)
        _require_name()
        return None
    identity = _unprivileged(owner)
    _require_powers()
    if _open_to_all(data) and _open_to_all(programs):
        return Account(identity.pw_uid, identity.pw_gid)
    return Account(identity.pw_uid, identity.pw_gid, _search_capability(data, programs))


def _require_own(data: Path, owner: int | None) -> None:
    if owner is not None and owner != os.geteuid():
        raise DevError(
            f"{data} belongs to user {owner} and this is user {os.geteuid()}: start as the user "
            "who made it (root, if it was made by root), or choose another directory"
        )


def _require_name() -> None:
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        raise DevError(
            f"PostgreSQL needs a name for user {os.geteuid()}, which has no line in /etc/passwd: "
            "add one, or start as another user"
        ) from None


def _unprivileged(owner: int | None) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(owner) if owner else pwd.getpwnam(UNPRIVILEGED)
    except KeyError:
        raise DevError(
            f"PostgreSQL refuses to run as root, and there is no user {owner or UNPRIVILEGED} "
            "to run it as: start as an ordinary user"
        ) from None


def _require_powers() -> None:
    """A container's root may lack what it takes to start a program as somebody else."""
    held = _effective_capabilities()
    if not all(held & (1 << power) for power in (CAP_CHOWN, CAP_KILL, CAP_SETGID, CAP_SETUID)):
        raise DevError(
            "PostgreSQL refuses to run as root, and this root may not become another user (it "
            "lacks the capability CHOWN, KILL, SETGID or SETUID): start as an ordinary user"
        )


def _open_to_all(path: Path) -> bool:
    """Whether every directory above `path` may be entered by anybody."""
    return all(
        parent.stat().st_mode & stat.S_IXOTH for parent in path.resolve().parents if parent.exists()
    )


def _search_capability(data: Path, programs: Path) -> int:
    held = _effective_capabilities()
    for capability in (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE):
        if held & (1 << capability) and held & (1 << CAP_SETPCAP):
            return capability
    raise DevError(
        f"PostgreSQL refuses to run as root, and the user {UNPRIVILEGED} may not enter all the "
        f"directories above {data} and {programs}: move both to where everybody may go, or start "
        "as an ordinary user"
    )


def _effective_capabilities() -> int:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return ~0  # no Linux: whatever root may do
    return int(status.split("CapEff:", 1)[1].split(None, 1)[0], 16)
