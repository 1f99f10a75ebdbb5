"""How much a test of faults does: a little each day, or all that is asked for."""

from __future__ import annotations

import os

# `make faults TABLE=1` sets it: as often, as many and as long as the table of faults says.
FULL = bool(os.environ.get("JOBMESH_FAULTS_FULL"))


def full(many: int, few: int) -> int:
    """How often or how much: `few` in the tests of every day."""
    return many if FULL else few
