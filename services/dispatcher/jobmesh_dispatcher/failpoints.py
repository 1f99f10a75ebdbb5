"""Places at which a test makes this process die, stand still, fail or wait.

    JOBMESH_FAILPOINTS="claim.before=kill, finish.after_commit=wait:/tmp/go"

Each entry is `point=action`; with `*N` behind it only the first N passages act. The actions:

* `kill`, `stop`: SIGKILL or SIGSTOP to itself;
* `error`: as if the database had gone just then;
* `wait:PATH`: until that file exists.

The variable is read once, at the start of the process. Without it a point costs a look at an empty
mapping, once a batch.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jobmesh.errors import BackendUnavailable

log = logging.getLogger(__name__)

VARIABLE = "JOBMESH_FAILPOINTS"
# Those of "What a dispatcher's crash leaves behind" in docs/architecture.md.
POINTS = frozenset(
    {
        "submit.before_commit",
        "submit.after_commit",  # and before the publish
        "claim.straight",  # about to be claimed as it is stored; an error: it is stored only
        "claim.before",  # pulled, and not claimed
        "claim.before_send",  # claimed, and not sent to the runner
        "claim.before_ack",  # sent, and not acknowledged
        "finish.after_commit",  # recorded, and not answered
        "fire.locked",  # the schedules of a firing are locked, and nothing is written
        "fire.recorded",  # the firing is written, and not its job
        "fire.stored",  # both, with the wake-up, and not committed
        "fire.after_commit",  # and before the answer
    }
)
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
LOOK_SECONDS = 0.02


@dataclass(slots=True)
class Failpoint:
    """What happens at a point; `left` passages act, all of them if it is None."""

    action: str
    argument: str = ""
    left: int | None = None


_armed: Mapping[str, Failpoint] = {}


def arm(text: str | None = None) -> None:
    """Arm the points that `text` names, by default the environment's. ValueError: it makes no
    sense.
    """
    global _armed
    _armed = parse(os.environ.get(VARIABLE, "") if text is None else text)
    if _armed:
        log.warning("this process is made to fail at: %s", ", ".join(_armed))


async def reach(point: str) -> None:
    """Do what is armed at this point: nothing, outside of tests."""
    if not _armed:
        return
    found = _armed.get(point)
    if found is None or found.left == 0:
        return
    if found.left is not None:
        found.left -= 1
    log.warning("failpoint %s: %s", point, found.action)
    await _act(found)


async def _act(failpoint: Failpoint) -> None:
    if failpoint.action == "error":
        raise BackendUnavailable("postgresql")
    if failpoint.action == "wait":
        file = Path(failpoint.argument)
        while not file.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(LOOK_SECONDS)
    else:
        if failpoint.action == "kill":
            logging.shutdown()  # what was logged so far is written
        os.kill(os.getpid(), SIGNALS[failpoint.action])


def parse(text: str) -> dict[str, Failpoint]:
    """The points that a variable's value arms. ValueError: it makes no sense."""
    return dict(_parse_one(entry) for entry in text.split(",") if entry.strip())


def _parse_one(entry: str) -> tuple[str, Failpoint]:
    point, equals, what = (part.strip() for part in entry.partition("="))
    what, star, times = what.partition("*")
    action, _, argument = what.partition(":")
    known = point in POINTS and action in {*SIGNALS, "error", "wait"}
    fits = bool(argument) == (action == "wait") and (not star or times.isdecimal())
    if not (equals and known and fits):
        raise ValueError(f"{VARIABLE}: {entry.strip()!r} makes no sense; see {__name__}")
    return point, Failpoint(action, argument, int(times) if star else None)
