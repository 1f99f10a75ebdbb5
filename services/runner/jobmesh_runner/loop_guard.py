"""Looks after claims that do not get their turn, as when a handler blocks the users' loop.

From the mesh thread, which turns whatever handlers do:

- While the users' loop does not answer, the dispatcher is told to send nothing.
- A claim that has waited for seconds is given back, unharmed: it may run elsewhere at once. Only so
  much is taken ahead as is run in a moment; that one waits says that jobs have become longer.
- A loop that is still blocked by a handler that was left behind will never turn again: the runner
  ends, to be started anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from jobmesh.server.tasks import TaskOwner
from jobmesh_runner.capacity import CapacityTeller
from jobmesh_runner.port import ExecutorPort
from jobmesh_runner.supervision import Supervision

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 3.0


class UsersLoopBlocked(RuntimeError):
    """A handler that was left behind blocks the loop of all others."""


class LoopGuard:
    """See the module.

    :param on_hopeless: told of an error once the users' loop will never turn again.
    """

    def __init__(
        self,
        executor: ExecutorPort,
        supervision: Supervision,
        capacity: CapacityTeller,
        on_hopeless: Callable[[Exception], None],
    ) -> None:
        self._executor = executor
        self._supervision = supervision
        self._capacity = capacity
        self._on_hopeless = on_hopeless
        self._owner = TaskOwner()
        self._asked = 0
        self._answered = 0
        self._answered_at = 0.0
        self.is_blocked = False

    async def start(self) -> None:
        """Begin to look."""
        self._owner.spawn("loop-guard", self._run())

    async def stop(self) -> None:
        """Look no more."""
        await self._owner.stop()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._answered_at = loop.time()
        while True:
            if self._answered == self._asked:
                self._answered_at = loop.time()
                self._asked += 1
                self._executor.answer(self._answer, self._asked)
            await asyncio.sleep(LOOK_SECONDS)
            self._look(loop.time())

    def _answer(self, number: int) -> None:
        """Called on the users' loop; an assignment is atomic."""
        self._answered = number

    def _look(self, now: float) -> None:
        silence = 0.0 if self._answered == self._asked else now - self._answered_at
        blocked = silence > PATIENCE_SECONDS
        if blocked != self.is_blocked:
            self.is_blocked = blocked
            log.warning(_BLOCKED if blocked else _TURNS_AGAIN)
            self._capacity.set_blocked(blocked)
        self._supervision.give_back(now - PATIENCE_SECONDS)
        if blocked and self._supervision.has_left_behind_on_loop:
            self._supervision.give_up_loop()
            self._on_hopeless(UsersLoopBlocked("a handler that was left behind blocks the loop"))


_BLOCKED = "a handler blocks the loop of all others: no jobs are taken until it lets go"
_TURNS_AGAIN = "the handlers' loop turns again"
