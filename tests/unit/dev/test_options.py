from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from jobmesh.dev.banner import banner
from jobmesh.dev.command import dev
from jobmesh.dev.options import EXAMPLES, SAMPLE_APP, DevOptions, default_apps
from jobmesh.server.config import ConfigError, load

CONTENT = {
    "gateway": ["127.0.0.1:9000"],
    "http": {"gateway-1": "127.0.0.1:9001"},
    "postgres": "postgresql://jobmesh:secret@127.0.0.1:1/jobmesh",
    "nats": "nats://127.0.0.1:2",
    "processes": {"gateway-1": 11, "runner-1": 12},
}


def options(**flags: object) -> DevOptions:
    return load(DevOptions, flags, component="dev", env={})


def test_flags_go_before_the_environment() -> None:
    found = load(DevOptions, {"runners": 3}, component="dev", env={"JOBMESH_RUNNERS": "2"})
    assert found.runners == 3
    assert found.gateways == 1


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"runners": 0}, "runners"),
        ({"port": 65_536}, "port"),
        ({"gateways": 10_000}, "gateways"),
        ({"app": ("no_colon",)}, "MODULE:APP"),
        ({"app": ("module:",)}, "MODULE:APP"),
    ],
)
def test_a_bad_value_is_named(flags: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        options(**flags)


def test_the_examples_are_served_in_a_checkout_and_nowhere_else(tmp_path: Path) -> None:
    assert default_apps(tmp_path) == (SAMPLE_APP,)
    assert default_apps(Path(__file__).parents[3]) == EXAMPLES


def test_the_banner_tells_how_to_go_on_and_no_secret() -> None:
    text = banner(CONTENT, options(data="/tmp/d"), detached=True)
    assert "127.0.0.1:9000" in text
    assert "runner-1 12" in text
    assert "jobmesh submit --address 127.0.0.1:9000 hello" in text
    assert "jobmesh dev stop --data /tmp/d" in text
    assert "secret" not in text


def test_the_commands_explain_themselves() -> None:
    runner = CliRunner()
    for arguments in (["--help"], ["stop", "--help"]):
        result = runner.invoke(dev, arguments)
        assert result.exit_code == 0
        assert "--data" in result.output


def test_a_wrong_flag_is_a_usage_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(dev, ["--data", str(tmp_path), "--runners", "0"])
    assert result.exit_code != 0
    assert "runners from --runners: must be at least 1" in result.output
    assert list(tmp_path.iterdir()) == []


def test_stop_says_that_nothing_runs(tmp_path: Path) -> None:
    result = CliRunner().invoke(dev, ["stop", "--data", str(tmp_path)])
    assert result.exit_code == 0
    assert f"no mesh runs in {tmp_path}" in result.output
