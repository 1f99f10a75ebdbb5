"""Settings: the order of sources, clear complaints, hidden secrets."""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.server.config import ConfigError, describe, load, setting, settings_of


@dataclasses.dataclass(frozen=True)
class Sample:
    dsn: str = setting(secret=True, help="where the jobs are")
    port: int = setting(7480, minimum=0, maximum=65535)
    lease_seconds: float = setting(10.0, minimum=1, help="how long")
    strict: bool = setting(False)
    queues: tuple[str, ...] = setting(())
    data: Path | None = setting(None)  # noqa: RUF009
    app: str = setting("", check=lambda app: None if ":" in app else "must be MODULE:APP")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobmesh.toml"
    path.write_text(
        'port = 1\nlease_seconds = 2\n[sample]\nport = 11\nqueues = ["a", "b"]\n[other]\nx = 1\n'
    )
    return path


def read(
    flags: Mapping[str, object | None] | None = None,
    env: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Sample:
    return load(
        Sample, flags, component="sample", env={"JOBMESH_DSN": "d"} | dict(env or {}), file=file
    )


def problems(**env: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(Sample, env={f"JOBMESH_{name.upper()}": value for name, value in env.items()})
    return caught.value.problems


def test_the_first_source_that_has_a_value_wins(file: Path) -> None:
    assert read({"port": 4}, {"JOBMESH_PORT": "3"}, file).port == 4
    assert read({"port": None}, {"JOBMESH_PORT": "3"}, file).port == 3
    assert read({}, {}, file).port == 11
    assert read({}, {}, file).lease_seconds == 2
    assert read().port == 7480


def test_what_a_source_leaves_out_overrides_nothing(file: Path) -> None:
    settings = read({"port": None, "queues": ()}, {"JOBMESH_PORT": "", "JOBMESH_QUEUES": ""}, file)
    assert (settings.port, settings.queues) == (11, ("a", "b"))


def test_zero_and_false_are_values() -> None:
    settings = read({"port": 0, "strict": False}, {"JOBMESH_PORT": "1", "JOBMESH_STRICT": "1"})
    assert (settings.port, settings.strict) == (0, False)


def test_text_becomes_the_type_of_the_field() -> None:
    settings = read(
        env={
            "JOBMESH_LEASE_SECONDS": "2.5",
            "JOBMESH_STRICT": "true",
            "JOBMESH_QUEUES": "a, b,,c",
            "JOBMESH_DATA": "/tmp/x",
        }
    )
    assert settings.lease_seconds == 2.5
    assert settings.strict is True
    assert settings.queues == ("a", "b", "c")
    assert settings.data == Path("/tmp/x")


def test_complaints_name_every_setting_and_its_source() -> None:
    found = problems(port="70000", lease_seconds="soon", app="x")
    assert found[0].startswith("dsn is not set: use --dsn, JOBMESH_DSN")
    assert found[1] == "port from JOBMESH_PORT: must be at most 65535, is 70000"
    assert found[2].startswith("lease_seconds from JOBMESH_LEASE_SECONDS: Expected `float`")
    assert found[3] == "app from JOBMESH_APP: must be MODULE:APP"
    assert len(found) == 4


def test_not_a_number_is_no_number() -> None:
    assert problems(dsn="d", lease_seconds="nan") == [
        "lease_seconds from JOBMESH_LEASE_SECONDS: must be a number"
    ]


def test_a_misspelt_setting_in_the_components_table_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("[sample]\nprot = 1\n")
    with pytest.raises(ConfigError, match=r"\[sample\] has no setting prot"):
        read(file=path)


@pytest.mark.parametrize("content", [b"port = ", b"\xff\xfe"])
def test_a_broken_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"x\.toml: cannot be read"):
        read(file=path)


def test_a_file_that_was_asked_for_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read(env={"JOBMESH_CONFIG": str(tmp_path / "absent.toml")})


def test_the_default_file_may_be_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read().port == 7480
    (tmp_path / "jobmesh.toml").write_text("port = 5\n")
    assert read().port == 5


def test_a_secret_may_come_from_a_file_and_is_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "dsn"
    path.write_text("postgres://u:hunter2@h/db\n")
    settings = load(Sample, env={"JOBMESH_DSN_FILE": str(path)})
    assert settings.dsn == "postgres://u:hunter2@h/db"
    assert "hunter2" not in repr(settings)
    assert describe(settings)["dsn"] == "***"
    assert describe(settings)["port"] == 7480


def test_the_default_of_a_secret_is_none_and_is_shown() -> None:
    @dataclasses.dataclass(frozen=True)
    class Urls:
        url: str = setting("nats://127.0.0.1:4222", secret=True)

    (info,) = settings_of(Urls)
    assert info.shown_default == "nats://127.0.0.1:4222"


def test_a_secret_of_the_wrong_type_is_not_repeated() -> None:
    @dataclasses.dataclass(frozen=True)
    class Keys:
        token: int = setting(secret=True)

    with pytest.raises(ConfigError) as caught:
        load(Keys, env={"JOBMESH_TOKEN": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_settings_that_contradict_each_other_are_reported() -> None:
    with pytest.raises(ConfigError, match="renewal must be shorter"):
        load(Lease, env={"JOBMESH_RENEW_SECONDS": "20"})


@dataclasses.dataclass(frozen=True)
class Lease:
    lease_seconds: float = setting(10.0)
    renew_seconds: float = setting(1.0)

    def __post_init__(self) -> None:
        if self.renew_seconds >= self.lease_seconds:
            raise ValueError("renewal must be shorter than the lease")


def test_help_shows_defaults_but_no_secrets() -> None:
    by_name = {info.name: info for info in settings_of(Sample)}
    assert by_name["port"].shown_default == "7480"
    assert by_name["port"].flag == "--port"
    assert by_name["lease_seconds"].flag == "--lease-seconds"
    assert by_name["lease_seconds"].help == "how long"
    assert by_name["dsn"].required
    assert by_name["dsn"].shown_default == ""
    assert by_name["dsn"].env == "JOBMESH_DSN"


@given(st.lists(st.text(string.ascii_letters + string.digits + "._-", min_size=1), max_size=5))
def test_lists_survive_the_environment(queues: list[str]) -> None:
    assert read(env={"JOBMESH_QUEUES": ",".join(queues)}).queues == tuple(queues)
