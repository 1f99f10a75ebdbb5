"""How long to wait before the next dispatcher is tried."""

from __future__ import annotations

FIRST_SECONDS = 0.05
MOST_SECONDS = 2.0
SPREAD_SECONDS = 0.05


def reattach_pause(failures: int, u: float) -> float:
    """Seconds, after so many attempts in a row that failed; ``u`` is random in [0, 1).

    Nearly none after the first: a dispatcher gives a broken stream 2 s before it ends the session.
    All runners of a dispatcher that died come at once, hence the spread.
    """
    if failures == 0:
        return SPREAD_SECONDS * u
    longest: float = FIRST_SECONDS * 2.0 ** min(failures, 16)
    return min(longest, MOST_SECONDS) * (0.5 + 0.5 * u)
