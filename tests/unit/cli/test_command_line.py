"""What can be said about a command line without calling a mesh."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from jobmesh.cli import exits
from jobmesh.cli.commands import COMMANDS
from jobmesh.cli.main import cli, run
from jobmesh.cli.problem import explain
from jobmesh.errors import (
    BackendUnavailable,
    InvalidFields,
    NotFound,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)

PROGRAM = (sys.executable, "-m", "jobmesh.cli.main")


def test_the_version_is_told_without_loading_what_it_does_not_need() -> None:
    code = (
        "import sys; from jobmesh.cli.main import run; code = run(['--version']);"
        "heavy = {'grpc', 'rich', 'google.protobuf', 'asyncio', 'msgspec'} & set(sys.modules);"
        "sys.exit(f'loaded {heavy}' if heavy else code)"
    )
    done = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("jobmesh 0.")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_agrees_with_the_list(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name, "--help"]) == 0
    assert "Usage: jobmesh" in capsys.readouterr().out
    context = click.Context(cli)
    command = cli.get_command(context, name)
    assert command is not None
    ours = COMMANDS[name].help.rstrip(".").split(",")[0].split(":")[0]
    theirs = (command.help or "").replace("\n", " ")
    if name not in ("dev", "submit", "migrate"):  # which say more, or are another's
        assert theirs.startswith(ours)


def test_the_list_of_commands_has_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Usage"),
        (["sumbit"], "No such command 'sumbit'"),
        (["--namespace", "other", "list"], "'--namespace': 'other' is not 'default'"),
        (["get"], "Missing argument 'ID'"),
        (["get", "j", "--colour"], "No such option"),
        (["submit", "t", "{month: 3}"], "malformed JSON at line 1, column 2"),
        (["submit", "t", "[]"], "must be a JSON object"),
        (["submit", "t", "--timeout", "-5"], "no length of time"),
        (["submit", "t", "--max-attempts", "0"], "max_attempts must be 1 to 1000, not 0"),
        (["submit", "t", "--run-at", "10000-01-01T00:00Z"], "no time of the years 1 to 9999"),
        (["submit", "t", "--priority", "10"], "10 is not in the range 0<=x<=9"),
        (["submit", "t", "--delay", "1", "--run-at", "2030-01-01"], "not both"),
        (["submit", "t", "{}", "--file", "-"], "not both"),
        (["submit", "t", '{"a": "\\ud800"}'], "surrogates not allowed"),
        (["submit", "t", "-a", 'a="\\ud800"'], "surrogates not allowed"),
        (["submit", "t", "--delay", "1e20"], "'1e20' is longer than 10,000 years"),
        (["schedules", "create", "s", "t", '{"a": "\\ud800"}'], "surrogates not allowed"),
        (["schedules", "create", "s", "t", "--pause-after-failures", "9999999999"], "the range"),
        (["watch", "j", "--after-revision", "99999999999999999999"], "is not in the range"),
        (["logs", "j", "--after", "99999999999999999999"], "is not in the range"),
        (["queues", "update", "q", "--max-running", "99999999999999999999"], "is not in the range"),
        (["queues", "update", "q", "--max-depth", "99999999999999999999"], "is not in the range"),
        (["submit", "t\udcff"], "'t\\udcff' is not Unicode"),
        (["submit", "t", "--label", "a=\udcff"], "'\\udcff' is not Unicode"),
        (["get", "j", "--address", "h\udcff:1"], "'h\\udcff:1' is not Unicode"),
        (["migrate", "--postgres-dsn", "postgres://\udcff/"], "--postgres-dsn is not Unicode"),
        (["submit", "t", "--label", "team"], "write name=value"),
        (["list", "--state", "SLEEPING"], "'SLEEPING' is not one of"),
        (["get", "j", "--address", "nonsense"], "--address: not an address: 'nonsense'"),
        (["--output", "xml", "info"], "'xml' is not one of 'table', 'json'"),
        (["queues", "update", "q"], "nothing to change"),
        (["scheduler", "--port", "many", "--postgres-dsn", "x"], "port from --port"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
    ],
)
def test_a_wrong_command_line_ends_with_64_and_says_what_is_wrong(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == exits.WRONG_COMMAND_LINE
    told = capsys.readouterr()
    assert message in " ".join(told.err.split())
    assert "Traceback" not in told.err
    assert told.out == ""


@pytest.mark.parametrize("service", ["gateway", "dispatcher", "runner", "scheduler"])
@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        (
            "JOBMESH_LOG_LEVEL",
            "LOUD",
            "must be DEBUG, INFO, WARNING, ERROR or CRITICAL, not 'LOUD'",
        ),
        ("JOBMESH_LOG_FORMAT", "xml", "must be json or text, not 'xml'"),
    ],
)
def test_a_setting_of_the_log_is_told_as_every_other_one(
    service: str,
    variable: str,
    value: str,
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, value)
    monkeypatch.setenv("JOBMESH_POSTGRES_DSN", "postgresql://u@127.0.0.1:1/d")
    monkeypatch.setenv("JOBMESH_APP", "absent:app")
    assert run([service]) == exits.WRONG_COMMAND_LINE
    assert f"from {variable}: {told}" in capsys.readouterr().err


def test_an_error_that_nobody_expected_is_shown_and_is_no_failed_job(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr("jobmesh.cli.main._invoke", broken)
    assert run(["info"]) == exits.DEFECT == 70
    assert "KeyError: 'a defect'" in capsys.readouterr().err


def test_text_that_is_not_unicode_is_a_wrong_command_line() -> None:
    done = subprocess.run(
        [*map(os.fsencode, PROGRAM), b"submit", b"t\xff"],
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == exits.WRONG_COMMAND_LINE
    assert b"not Unicode" in done.stderr


def test_a_file_may_have_a_name_that_is_not_unicode(tmp_path: Path) -> None:
    file = os.fsencode(tmp_path) + b"/\xff.json"
    with open(file, "w") as made:  # noqa: PTH123 - a name of bytes
        made.write("{")
    done = subprocess.run(
        [*map(os.fsencode, PROGRAM), b"submit", b"t", b"--file", file],
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == exits.WRONG_COMMAND_LINE
    assert b"\\udcff.json: malformed JSON at line 1, column 2" in done.stderr


@pytest.mark.parametrize("where", ["before", "after", "variable"])
def test_the_address_may_stand_before_or_after_the_command_or_in_the_environment(
    where: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = ["--address", "127.0.0.1:1"]
    if where == "variable":
        monkeypatch.setenv("JOBMESH_ADDRESS", "127.0.0.1:1")
    lines = {"before": [*address, "info"], "after": ["info", *address], "variable": ["info"]}
    assert run([*lines[where], "--output", "json"]) == exits.CALL_FAILED
    answer = json.loads(capsys.readouterr().out)
    assert answer["address"] == "127.0.0.1:1"
    assert answer["status"] == "UNREACHABLE"
    assert answer["why"] == "Connection refused"


def test_the_inner_one_of_two_options_wins(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--address", "127.0.0.1:1", "--output", "json", "info", "--address", "127.0.0.1:2"])
    assert json.loads(capsys.readouterr().out)["address"] == "127.0.0.1:2"


def test_a_mesh_that_is_not_there_is_told_in_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    assert run(["get", "j", "--address", "127.0.0.1:1"]) == exits.CALL_FAILED
    assert time.monotonic() - began < 10
    first, second = capsys.readouterr().err.splitlines()
    assert first == "jobmesh: cannot reach the mesh at 127.0.0.1:1: Connection refused"
    assert "jobmesh dev" in second


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            InvalidFields([("job.type", "is empty"), ("job.timeout", "is negative")]),
            "jobmesh: job.type: is empty\njobmesh: job.timeout: is negative",
        ),
        (NotFound.job("j"), "jobmesh: no such job: j"),
        (
            BackendUnavailable("dispatcher"),
            "jobmesh: dispatcher is not available\njobmesh: try again in 1 s",
        ),
        (Unauthenticated("no token"), "jobmesh: no token\njobmesh: give a token by --token-file"),
        (
            Unimplemented("no such method"),
            "jobmesh: no such method\njobmesh: the mesh is of a version that cannot do this yet",
        ),
    ],
)
def test_errors_in_words(error: Exception, text: str) -> None:
    assert explain(error) == text


def test_a_defect_is_not_dressed_up_as_a_users_error() -> None:
    assert explain(KeyError("x")) is None
    assert explain(Unavailable("cannot reach the mesh at a: b")) is not None


def test_options_of_a_service_show_variable_and_default(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["scheduler", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "--http-port N" in shown
    assert "[JOBMESH_HTTP_PORT; default 7485]" in shown
    assert "--leader-lease-seconds SECONDS" in shown
    assert "[JOBMESH_POSTGRES_DSN]" in shown


def test_settings_that_are_missing_are_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JOBMESH_POSTGRES_DSN", raising=False)
    assert run(["migrate"]) == exits.WRONG_COMMAND_LINE
    assert "JOBMESH_POSTGRES_DSN" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_JOBMESH_COMPLETE" in capsys.readouterr().out


def test_commands_and_options_are_completed() -> None:
    words = {**os.environ, "_JOBMESH_COMPLETE": "bash_complete", "COMP_WORDS": "jobmesh qu",
             "COMP_CWORD": "1"}  # fmt: skip
    done = subprocess.run(
        ("jobmesh",), env=words, capture_output=True, text=True, timeout=30, check=False,
        executable=str(Path(sys.executable).with_name("jobmesh")),
    )  # fmt: skip
    assert "queues" in done.stdout


def test_a_reader_that_leaves_early_is_no_error() -> None:
    done = subprocess.run(
        ("bash", "-c", 'set -o pipefail; "$@" --help | :', "-", *PROGRAM),
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
