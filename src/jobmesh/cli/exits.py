"""Exit codes, the same for every command."""

from __future__ import annotations

OK = 0
JOB_FAILED = 1
CALL_FAILED = 2
JOB_CANCELLED = 3
TIMED_OUT = 4
WRONG_COMMAND_LINE = 64  # EX_USAGE of sysexits.h
DEFECT = 70  # EX_SOFTWARE: an error that nobody expected
INTERRUPTED = 130  # 128 + SIGINT, as shells count
