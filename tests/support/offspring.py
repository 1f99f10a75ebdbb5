"""What a fork server under test forks: each acts on the word that it is given."""

from __future__ import annotations

import os
import signal
import sys
import time

from jobmesh.server.fork_server import serve


def become(word: bytes, fds: list[int]) -> None:
    """Do as the word says, with the other end of a pipe or without."""
    for fd in fds:
        os.write(fd, b"%d %s" % (os.getpgid(0), word))
        os.close(fd)
    match word.decode().split():
        case ["exit", code]:
            sys.exit(int(code))
        case ["say", what]:
            sys.exit(what)
        case ["full"]:
            sys.stdout = open("/dev/full", "w")  # noqa: PTH123, SIM115
            sys.stdout.write("what finds no place")
            sys.exit(3)
        case ["raise"]:
            raise RuntimeError("as it was told")
        case ["signal"]:
            os.kill(os.getpid(), signal.SIGSEGV)
        case ["wait"]:
            time.sleep(3600)
        case ["descriptors"]:
            sys.stdout.flush()
            os.execvp("ls", ["ls", "-m", "/proc/self/fd"])


if __name__ == "__main__":
    serve(int(sys.argv[1]), become)
