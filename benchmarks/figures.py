"""A figure: what was measured, beside its floor, against its target."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the result.

    - ``ours``, ``floor``: a value for each round, in ``unit``; without a floor there is no ratio.
    - ``least_ratio``: of ours to the floor; ``most``: of ours itself.
    """

    name: str
    unit: str
    ours: tuple[float, ...]
    floor: tuple[float, ...] = ()
    floor_name: str = ""
    least_ratio: float | None = None
    most: float | None = None

    @property
    def value(self) -> float:
        """The median of ours."""
        return median(self.ours)

    @property
    def floor_value(self) -> float | None:
        """The median of the floor."""
        return median(self.floor) if self.floor else None

    @property
    def ratio(self) -> float | None:
        """The median of the rounds' ratios: a slow moment of the machine slows both of a round."""
        if not self.floor:
            return None
        return median(ours / floor for ours, floor in zip(self.ours, self.floor, strict=True))

    @property
    def ok(self) -> bool:
        """Whether the target is met; a figure without one is only shown."""
        if self.least_ratio is not None:
            return self.ratio is not None and self.ratio >= self.least_ratio
        return self.most is None or self.value <= self.most

    @property
    def target(self) -> str:
        """The target in words."""
        if self.least_ratio is not None:
            return f"≥ {self.least_ratio:g} × {self.floor_name}"
        return f"≤ {self.most:g} {self.unit}" if self.most is not None else "–"

    def as_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "name": self.name,
            "unit": self.unit,
            "value": self.value,
            "rounds": list(self.ours),
            "floor": self.floor_value,
            "floor_name": self.floor_name or None,
            "floor_rounds": list(self.floor),
            "ratio": self.ratio,
            "target": self.target,
            "ok": self.ok,
        }
