"""Peak memory of processes, from /proc."""

from __future__ import annotations

from pathlib import Path

PEAK = "VmHWM:"


def peak_bytes(pid: int) -> int:
    """The most resident memory that the process ever had (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(PEAK):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/{pid}/status has no {PEAK}")
