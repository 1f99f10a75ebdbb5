"""Enum values. In proto3 any number travels, also one that this contract does not know."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.descriptor import EnumDescriptor

from jobmesh.validation.violations import Violations


def check_enum(value: int, path: str, found: Violations, enum: EnumDescriptor) -> None:
    """A number that the contract knows."""
    if value not in enum.values_by_number:
        found.add(path, f"{value} is no {enum.name}; known are {', '.join(_known(enum))}")


def check_enums(values: Iterable[int], path: str, found: Violations, enum: EnumDescriptor) -> None:
    """Each of them known, and said: not the zero that stands for "left out"."""
    for index, value in enumerate(values):
        if value == 0:
            found.add(f"{path}[{index}]", "must not be unspecified")
        else:
            check_enum(value, f"{path}[{index}]", found, enum)


def _known(enum: EnumDescriptor) -> list[str]:
    return [known.name for known in enum.values if known.number]
