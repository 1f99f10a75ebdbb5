"""Answering runners that ask for the result of a step, or bring it; many steps a transaction."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobmesh.batching import Batcher
from jobmesh.errors import Unavailable
from jobmesh.v1 import runner_service_pb2 as pb
from jobmesh_dispatcher.report_limits import MOST_BYTES, storable_payload
from jobmesh_dispatcher.store.steps import Answer, Known, Step, settle

if TYPE_CHECKING:
    from jobmesh_dispatcher.database import Database
    from jobmesh_dispatcher.lease import Lease

log = logging.getLogger(__name__)

STEPS_A_BATCH = 256
BATCH_BYTES = 8 << 20
MAX_WAITING = 20_000
# A result that is asked for is of unknown size: what is read at once has to be bounded, too.
ASKED_BYTES = 256 << 10
MOST_KEY = 200
_STATUS = {
    Known.STORED: pb.REPORT_STATUS_RECORDED,
    Known.FOUND: pb.REPORT_STATUS_RECORDED,
    Known.ABSENT: pb.REPORT_STATUS_RECORDED,
    Known.LEASE_LOST: pb.REPORT_STATUS_LEASE_LOST,
    Known.REFUSED: pb.REPORT_STATUS_REFUSED,
}


class Steps:
    """Stores and finds what steps came to."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._batcher: Batcher[Step, Answer] = Batcher(
            self._settle,
            max_items=STEPS_A_BATCH,
            max_bytes=BATCH_BYTES,
            max_waiting=MAX_WAITING,
            name="steps",
        )

    async def start(self) -> None:
        """Accept steps."""
        await self._batcher.start()

    async def stop(self) -> None:
        """Store what was accepted."""
        await self._batcher.stop()

    async def answer(self, lease: Lease | None, report: pb.StepReport) -> pb.StepAck | None:
        """What to tell the runner; nothing while it is not known, so that it asks again.

        :param lease: the claim of the report, if it is still the runner's.
        """
        try:
            known = await self._known(lease, report)
        except Unavailable as error:
            log.warning("a step is not stored yet: %s", error)
            return None
        return pb.StepAck(
            lease=report.lease,
            sequence=report.sequence,
            status=_STATUS[known.known],
            result=known.result,
        )

    async def _known(self, lease: Lease | None, report: pb.StepReport) -> Answer:
        if lease is None:
            return Answer(Known.LEASE_LOST)
        result = report.result if report.HasField("result") else None
        if not is_step_key(report.key):
            return Answer(Known.REFUSED)
        size = ASKED_BYTES
        if result is not None:
            size = len(result.data)
            if size > MOST_BYTES:
                return Answer(Known.REFUSED)
            storable_payload(result)
        return await self._batcher.submit(Step(lease, report.key, result), size)

    async def _settle(self, batch: list[Step]) -> Sequence[Answer]:
        return await self._database.run(lambda c: settle(c, batch))


def is_step_key(key: str) -> bool:
    """Whether a step may be called that."""
    return 1 <= len(key) <= MOST_KEY and key.isprintable()
