"""The check of the documents finds what is wrong with one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.console import blocks, differences, run, steps

DOCUMENT = """
```console
$ x=3; echo "job 01a22c64-9ac2-77bf-ae84-816c12c9256b at 12:00:01 after 3ms"
job 01a22c64-0000-77bf-ae84-816c12c9256b at 23:59:59 after 1.5s
$ printf 'one\\ntwo\\nthree\\n' && \\
    echo $x
one
…
3
$ (exit 3)    # exit code 3
```

```sh
elsewhere
```
"""


def check(text: str, folder: Path) -> list[str | None]:
    session = [step for block in blocks(text, "console") for step in steps(block)]
    run(session, folder, os.environ, 20)
    return [differences(step) for step in session]


def test_a_document_that_tells_the_truth_passes(tmp_path: Path) -> None:
    assert check(DOCUMENT, tmp_path) == [None, None, None]
    assert blocks(DOCUMENT, "sh") == ["elsewhere\n"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("$ echo one\ntwo", "is shown to print:\ntwo\nand printed:\none"),
        ("$ echo one", "is shown to print:\n\nand printed:\none"),
        ("$ echo one\none\ntwo", "is shown to print:\none\ntwo"),
        ("$ false", "ended with 1, not 0"),
        ("$ true # exit code 1", "ended with 0, not 1"),
        ("$ false | cat", "ended with 1"),
    ],
)
def test_a_document_that_does_not_is_found_out(tmp_path: Path, command: str, message: str) -> None:
    (wrong,) = check(f"```console\n{command}\n```\n", tmp_path)
    assert wrong is not None
    assert message in wrong
