"""Runs the shell sessions shown in a document, and compares what they print with what is shown.

In a fenced block called `console`, a line that begins with `$ ` is a command (a backslash at its
end continues it, `# exit code N` says how it ends); the lines after it are what it prints. `…` is
any text within a line, and any lines if it stands alone. Ids, times, durations and addresses need
only look alike.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "\x1e"
ANY = "…"


@dataclass
class Step:
    """One command, as shown and as it went."""

    command: str
    shown: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    code: int | None = None

    @property
    def expected_code(self) -> int:
        found = re.search(r"# exit code (\d+)$", self.command)
        return int(found[1]) if found else 0


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return [body for found, body in FENCE.findall(text) if found == language]


def steps(block: str) -> Iterator[Step]:
    """The commands of a session with what is shown after each."""
    step: Step | None = None
    for line in block.splitlines():
        if step is not None and step.command.endswith("\\"):
            step.command += "\n" + line
        elif line.startswith("$ "):
            if step is not None:
                yield step
            step = Step(line.removeprefix("$ "))
        else:
            assert step is not None, f"before the first command: {line}"
            step.shown.append(line)
    assert step is not None, "a session without a command"
    yield step


def run(session: list[Step], folder: Path, environment: Mapping[str, str], timeout: float) -> None:
    """Run the commands one after another in one shell, and note what they print."""
    script = ["set -o pipefail"]
    for step in session:
        script += [f"printf '{MARK}'; {{ {step.command}", "} 2>&1 </dev/null"]
        script += [f"printf '{MARK}%d' $?"]
    done = subprocess.run(
        ("bash", "--noprofile", "--norc", "-c", "\n".join(script)),
        cwd=folder,
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=True,
    )
    _, *parts = done.stdout.split(MARK)
    for step, printed, code in zip(session, parts[::2], parts[1::2], strict=True):
        step.printed, step.code = printed.splitlines(), int(code)


def differences(step: Step) -> str | None:
    """What is wrong with a step that was run, or nothing."""
    printed = "\n".join(step.printed)
    if step.code != step.expected_code:
        return f"$ {step.command}\nended with {step.code}, not {step.expected_code}:\n{printed}"
    pattern = "".join(_pattern(line) for line in step.shown)
    if not re.fullmatch(pattern, "".join(_alike(line) + "\n" for line in step.printed)):
        shown = "\n".join(step.shown)
        return f"$ {step.command}\nis shown to print:\n{shown}\nand printed:\n{printed}"
    return None


def _pattern(shown: str) -> str:
    if shown.strip() == ANY:
        return r"(?:.*\n)*?"
    return ".*?".join(re.escape(part) for part in _alike(shown).split(ANY)) + r"\n"


def _alike(line: str) -> str:
    """The line with what differs from run to run replaced by its kind."""
    for kind, pattern in _KINDS.items():
        line = re.sub(pattern, kind, line)
    return " ".join(line.split())


_KINDS = {
    "ID": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "TIME": r"\b\d\d:\d\d:\d\d\b",
    "ADDRESS": r"\b127\.0\.0\.1:\d+\b",
    "VERSION": r"\b\d+\.\d+\.\d+\b(?!\.)",
    "LENGTH": r"\b\d+(?:\.\d+)?(?:ms|s|m\d\ds)\b",
}
