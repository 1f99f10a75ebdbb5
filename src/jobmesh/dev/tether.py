"""Start a program that dies with its parent: `python tether.py OPTIONS -- PROGRAM ARGUMENT…`.

The kernel sends the program a signal once its parent has gone, also when the parent was killed and
could clean up nothing. This has to be asked for after the fork and after the change of user (which
forgets it), hence this launcher in place of a `preexec_fn`, which is unsafe beside threads. It then
becomes the program by `execve`, so the process id stays what the parent saw.

It can also change to an unprivileged account first, as PostgreSQL refuses to run as root. If the
program lies where that account may not go (a checkout below /root), one capability is kept that
lets it. `access()` ignores capabilities of any user but root unless NO_SETUID_FIXUP is set, and
PostgreSQL asks `access()` about its own binaries.

Run by its path under `python -I -S`: nothing but the standard library, and few milliseconds.
See prctl(2), capabilities(7), credentials(7).
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
PR_SET_SECUREBITS = 28
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
SECBIT_NO_SETUID_FIXUP = 1 << 2
CAPABILITY_VERSION_3 = 0x20080522
CANNOT_START = 126


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilityData(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def main(arguments: Sequence[str]) -> None:
    """Prepare this process as the options say, and become the program."""
    options = _parse(arguments)
    if options.uid is not None:
        _become(options.uid, options.gid, options.capability)
    if sys.platform == "linux":
        _die_with_parent(options.signal, options.parent)
    os.execvp(options.program[0], options.program)  # noqa: S606 - this is what it is for


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tether")
    parser.add_argument("--parent", type=int, required=True, help="process id of the parent")
    parser.add_argument("--signal", type=int, required=True, help="sent when the parent has gone")
    parser.add_argument("--uid", type=int, help="become this user")
    parser.add_argument("--gid", type=int, help="and this group")
    parser.add_argument("--capability", type=int, help="number of the one capability to keep")
    parser.add_argument("program", nargs="+")
    return parser.parse_args(arguments)


def _become(uid: int, gid: int, capability: int | None) -> None:
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    if capability is None:
        os.setresuid(uid, uid, uid)
        return
    _prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP)
    os.setresuid(uid, uid, uid)
    _keep_only(capability)
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability)


def _keep_only(capability: int) -> None:
    header = _CapabilityHeader(CAPABILITY_VERSION_3, 0)
    data = (_CapabilityData * 2)()
    bit = 1 << (capability % 32)
    data[capability // 32] = _CapabilityData(bit, bit, bit)
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.capset(ctypes.byref(header), ctypes.byref(data)), "capset")


def _die_with_parent(signal: int, parent: int) -> None:
    _prctl(PR_SET_PDEATHSIG, signal)
    if os.getppid() != parent:
        sys.exit("tether: the parent has gone")


def _prctl(*arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    padded = [*arguments, 0, 0, 0, 0][:5]
    _check(libc.prctl(*(ctypes.c_ulong(value) for value in padded)), f"prctl({arguments})")


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        sys.stderr.write(f"tether: {error}\n")
        sys.exit(CANNOT_START)
