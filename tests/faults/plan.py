"""Which faults happen when: made from a seed, so that a run can be had again."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

SERVICES = ("dispatcher", "runner", "scheduler", "gateway")
REPLICAS = 2
MOST_AT_ONCE = 3
# Left between two faults of the same service, so that one of its replicas is always up.
RECOVERY = 4.0
MOST_TRIES = 50


class Kind(NamedTuple):
    """A kind of fault: how often it comes beside others, how many seconds it lasts."""

    weight: float
    shortest: float
    longest: float


KINDS: Mapping[str, Kind] = {
    **{f"{service}.kill": Kind(3.0, 0.0, 3.0) for service in SERVICES},
    **{f"{service}.freeze": Kind(1.0, 0.5, 9.0) for service in SERVICES},
    **{f"{service}.term": Kind(1.0, 0.0, 2.0) for service in SERVICES},
    "nats.kill": Kind(2.0, 0.0, 4.0),
    "nats.freeze": Kind(0.5, 0.5, 6.0),
    "nats.wipe": Kind(1.0, 0.0, 3.0),
    "nats.delete": Kind(0.5, 0.0, 0.0),
    "postgres.kill": Kind(0.7, 0.0, 2.0),
    "postgres.backend": Kind(0.5, 0.0, 0.0),
    "postgres.freeze": Kind(0.7, 0.5, 8.0),
    "postgres.readonly": Kind(0.5, 0.5, 5.0),
    "postgres.clock": Kind(0.5, 1.0, 8.0),
    "link.cut": Kind(1.0, 0.0, 5.0),
    "link.stall": Kind(1.0, 0.5, 8.0),
}
# What a link connects; the first one named is whose peer seems to be gone.
LINKS = (
    *(f"dispatcher-{number}/postgres" for number in (1, 2)),
    *(f"dispatcher-{number}/nats" for number in (1, 2)),
    *(f"runner-{runner}/dispatcher-{number}" for runner in (1, 2) for number in (1, 2)),
)


class Fault(NamedTuple):
    """One fault: `at` and `seconds` from the begin of the run, what, and to whom."""

    at: float
    kind: str
    target: str
    seconds: float

    @property
    def resource(self) -> str:
        """What must not be hurt twice at once."""
        return self.target.split("/")[0].split("-")[0]

    def __str__(self) -> str:
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.at:6.1f} s  {self.kind} {self.target}{lasts}"


def chosen(names: Sequence[str]) -> dict[str, Kind]:
    """The kinds that these names, or beginnings of names, mean; all of them if there is none.

    :raises ValueError: one means nothing.
    """
    found: dict[str, Kind] = {}
    for name in names or ("",):
        fitting = {kind: KINDS[kind] for kind in KINDS if kind.startswith(name)}
        if not fitting:
            raise ValueError(f"no such fault: {name}; there are {', '.join(KINDS)}")
        found |= fitting
    return found


def plan(seed: int, seconds: float, a_minute: float, kinds: Mapping[str, Kind]) -> list[Fault]:
    """The faults of a run that lasts so long, in the order in which they begin."""
    dice = random.Random(f"faults-{seed}")
    faults: list[Fault] = []
    at = dice.uniform(0.5, 2.0)
    while at < seconds:
        for _ in range(MOST_TRIES):
            fault = _draw(dice, at, kinds)
            if _fits(fault, faults):
                faults.append(fault)
                break
        at += dice.uniform(0.4, 1.6) * 60 / a_minute
    return faults


def _draw(dice: random.Random, at: float, kinds: Mapping[str, Kind]) -> Fault:
    name = dice.choices(list(kinds), [kind.weight for kind in kinds.values()])[0]
    what, _, how = name.partition(".")
    target = what
    if what in SERVICES:
        target = f"{what}-{dice.randint(1, REPLICAS)}"
    elif what == "link":
        target = dice.choice(LINKS)
    elif how == "clock":
        target = f"{what}-{'back' if dice.random() < 0.5 else 'forth'}"
    kind = kinds[name]
    return Fault(at, name, target, round(dice.uniform(kind.shortest, kind.longest), 1))


def _fits(fault: Fault, before: Sequence[Fault]) -> bool:
    """Whether its service has recovered, and not too much is broken at once."""
    last = [f for f in before if f.at + f.seconds + RECOVERY > fault.at]
    return len(last) < MOST_AT_ONCE and all(f.resource != fault.resource for f in last)
