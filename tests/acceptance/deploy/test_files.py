"""What `deploy/` holds fits itself, the services, and the tools that read it."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor import MethodDescriptor

from jobmesh.server.config import settings_of
from jobmesh.v1 import job_service_pb2, mesh_service_pb2, queue_service_pb2, schedule_service_pb2
from tests.acceptance.deploy import compose, units
from tests.acceptance.deploy.compose import Container
from tests.acceptance.deploy.units import Unit

LIBRARY_SETTINGS = {"JOBMESH_LOG_FORMAT", "JOBMESH_LOG_LEVEL"}
SHARED = {"JOBMESH_SCHEDULERS", "JOBMESH_DISPATCHERS", "JOBMESH_HOST"}
DRAIN_GRACE_SECONDS = 30.0
CALLS = [
    call
    for module in (job_service_pb2, queue_service_pb2, schedule_service_pb2, mesh_service_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    for call in service.methods
]
# What a second try would do twice, or refuse; and what takes long where something is silent.
SENT_AGAIN_LATE = {"SubmitJob", "RetryJob", "TriggerSchedule", "BackfillSchedule", "GetClusterInfo"}


def known_settings(service: str) -> dict[str, object]:
    """Variables with their defaults; of those that are secret, the name of the file too."""
    if service == "migrate":
        return {"JOBMESH_POSTGRES_DSN": None, "JOBMESH_POSTGRES_DSN_FILE": None}
    module = importlib.import_module(f"jobmesh_{service}.config")
    infos = settings_of(getattr(module, f"{service.title()}Config"))
    found = {info.env: info.default for info in infos}
    return found | {f"{info.env}_FILE": None for info in infos if info.secret}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=50)


def seconds(text: str) -> float:
    assert text.endswith("s")
    return float(text.removesuffix("s"))


@pytest.mark.parametrize("container", compose.ours(), ids=lambda each: each.name)
def test_a_container_sets_what_its_service_knows(container: Container) -> None:
    known = known_settings(container.service).keys() | LIBRARY_SETTINGS | SHARED
    assert container.environment.keys() <= known


@pytest.mark.parametrize("container", compose.ours(), ids=lambda each: each.name)
def test_a_container_is_probed_where_its_service_listens(container: Container) -> None:
    if container.service == "migrate":
        assert "healthcheck" not in container.settings
        return
    port = known_settings(container.service)["JOBMESH_HTTP_PORT"]
    assert f"http://127.0.0.1:{port}/readyz" in container.settings["healthcheck"]["test"][-1]


def test_every_service_runs_twice() -> None:
    names = [container.service for container in compose.ours()]
    assert {name: names.count(name) for name in names} == {
        "migrate": 1, "dispatcher": 2, "scheduler": 2, "gateway": 2, "runner": 2,
    }  # fmt: skip


def test_what_a_container_waits_for_is_there_and_says_when_it_is_ready() -> None:
    services = compose.document()["services"]
    for settings in services.values():
        for name, wait in settings.get("depends_on", {}).items():
            assert name in services
            if wait["condition"] == "service_healthy":
                assert "healthcheck" in services[name]


def test_names_that_containers_call_are_names_of_containers() -> None:
    services = compose.document()["services"]
    names = set(services)
    for settings in services.values():
        names |= set(settings.get("networks", {}).get("default", {}).get("aliases", []))
    for container in compose.ours():
        for variable in ("JOBMESH_DISPATCHERS", "JOBMESH_SCHEDULERS", "JOBMESH_ADDRESS"):
            host, _, port = container.environment.get(variable, "postgres:0").partition(":")
            assert host in names
            assert port.isdigit()


def test_mounted_files_and_volumes_exist() -> None:
    document = compose.document()
    for settings in document["services"].values():
        for volume in settings.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (compose.DEPLOY / source).is_file()
            else:
                assert source in document["volumes"]


def test_compose_itself_accepts_the_file() -> None:
    """By the tool where there is one; what has no tool is read by the tests above."""
    for tool in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(tool[0]) is not None and run(*tool, "version").returncode == 0:
            done = run(*tool, "-f", str(compose.FILE), "config", "--quiet")
            assert done.returncode == 0, done.stderr
    sections = {key for key in compose.document() if not key.startswith("x-")}
    assert sections == {"services", "volumes"}


def test_runners_of_containers_know_the_gateways() -> None:
    runners = [each for each in compose.ours() if each.service == "runner"]
    assert {each.environment["JOBMESH_ADDRESS"] for each in runners} == {"gateways:7480"}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.full_name)
def test_the_proxy_gives_each_call_its_time(call: MethodDescriptor) -> None:
    path = f"/{call.containing_service.full_name}/{call.name}"
    route = next(r["route"] for r in compose.routes() if matches(r["match"], path))
    tries = route.get("retry_policy", {}).get("per_try_timeout", "none")
    if call.server_streaming or call.name == "WaitJob":
        assert (route["timeout"], tries) == ("0s", "none")
    elif call.name.startswith("Batch"):
        assert (route["timeout"], tries) == ("60s", "none")
    elif call.name in SENT_AGAIN_LATE:
        assert (route["timeout"], tries) == ("30s", "5s")
    else:
        assert (route["timeout"], tries) == ("30s", "1s")


def matches(match: dict[str, str], path: str) -> bool:
    (kind, text), *others = match.items()
    assert not others
    assert kind in ("path", "prefix")
    return path == text if kind == "path" else path.startswith(text)


def test_envoy_accepts_its_configuration() -> None:
    envoy = Path(sys.executable).with_name("envoy")
    done = run(
        str(envoy), "--mode", "validate", "--config-path", str(compose.DEPLOY / "envoy.yaml")
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("unit", units.services(), ids=lambda unit: unit.file.stem)
def test_a_unit_runs_its_service_and_stops_it_in_time(unit: Unit) -> None:
    assert unit.command[0] == units.PROGRAM
    assert unit.file.stem == f"jobmesh-{unit.service}" + "@" * (unit.service != "migrate")
    assert unit.one("Service", "KillSignal") == "SIGTERM"
    assert unit.all("Service", "Restart") in (["always"], ["on-failure"])
    assert seconds(unit.one("Service", "TimeoutStopSec")) >= 20
    if unit.service == "runner":
        assert unit.one("Service", "OOMPolicy") == "continue"
        assert unit.one("Service", "StateDirectory").endswith("/%i")
        state = f"%S/{unit.one('Service', 'StateDirectory')}"
        assert unit.one("Service", "WorkingDirectory") == state
        assert seconds(unit.one("Service", "TimeoutStopSec")) > DRAIN_GRACE_SECONDS
    assert unit.one("Install", "WantedBy") == "jobmesh.target"


@pytest.mark.parametrize("unit", units.services(), ids=lambda unit: unit.file.stem)
def test_a_unit_sets_what_its_service_knows(unit: Unit, tmp_path: Path) -> None:
    assert unit.environment(tmp_path).keys() <= known_settings(unit.service).keys()


def test_the_example_environment_sets_what_some_service_knows() -> None:
    known: set[str] = set(SHARED)
    for unit in units.services():
        known |= known_settings(unit.service).keys()
    assert units.environment_file().keys() <= known


def test_every_service_has_a_unit() -> None:
    assert [unit.service for unit in units.services()] == [
        "migrate", "dispatcher", "scheduler", "gateway", "runner",
    ]  # fmt: skip
    assert units.read(units.DIRECTORY / "jobmesh.target").one("Install", "WantedBy")


def test_systemd_itself_accepts_the_units(tmp_path: Path) -> None:
    """By its own tool where there is one; it wants the program to exist."""
    program = Path(sys.executable).with_name("jobmesh")
    copies = []
    for file in sorted(units.DIRECTORY.glob("jobmesh*.*")):
        if file.suffix in (".service", ".target"):
            copy = tmp_path / file.name.replace("@", "@1")
            copy.write_text(file.read_text().replace(units.PROGRAM, str(program)))
            copies.append(str(copy))
    assert len(copies) == 6
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:
        done = run(analyze, "verify", "--man=no", *copies)
        assert (done.returncode, done.stderr) == (0, "")
