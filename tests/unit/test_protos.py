"""The contract's tooling notices what it is there for: broken clients and stale stubs."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tools import protos

V1 = Path("protos/jobmesh/v1")


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    """A copy of the contract and its stubs that a test may break."""
    shutil.copy(protos.ROOT / "buf.yaml", tmp_path)
    for tree in ("protos", "src/jobmesh/v1"):
        shutil.copytree(protos.ROOT / tree, tmp_path / tree)
    return tmp_path


def edit(path: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, path.read_text(), count=1, flags=re.MULTILINE)
    assert count == 1, f"{path.name} holds no {pattern}"
    path.write_text(text)


def test_an_unchanged_contract_breaks_nobody(contract: Path) -> None:
    protos.check_breaking(contract, protos.ROOT / protos.RELEASED)


@pytest.mark.parametrize(
    ("file", "pattern", "replacement"),
    [
        pytest.param("job.proto", r" job_id = (\d+)", r" job_id = 999", id="field-renumbered"),
        pytest.param("job.proto", r"^  string job_id = ", "  int64 job_id = ", id="type-changed"),
        pytest.param("job_service.proto", r"^  rpc GetJob\(.*$", "", id="rpc-removed"),
        pytest.param("job.proto", "JOB_STATE_QUEUED", "JOB_STATE_READY", id="enum-value-renamed"),
    ],
)
def test_a_broken_contract_is_refused(
    contract: Path, file: str, pattern: str, replacement: str
) -> None:
    edit(contract / V1 / file, pattern, replacement)
    with pytest.raises(protos.StepFailed, match="buf breaking"):
        protos.check_breaking(contract, protos.ROOT / protos.RELEASED)


def test_an_uncommented_field_is_refused(contract: Path) -> None:
    edit(contract / V1 / "job.proto", r"^message Job \{$", "message Job {\n  string bare = 9999;")
    with pytest.raises(protos.StepFailed, match="buf lint"):
        protos.lint(contract)


def test_a_contract_that_is_not_formatted_is_refused(contract: Path) -> None:
    edit(contract / V1 / "job.proto", r"^message Job \{$", "message  Job  {")
    with pytest.raises(protos.StepFailed, match="buf format"):
        protos.lint(contract)


@pytest.mark.parametrize("stub", ["job_pb2.py", "job_service_pb2_grpc.pyi"])
def test_a_stale_stub_is_named(contract: Path, stub: str) -> None:
    with (contract / "src/jobmesh/v1" / stub).open("a") as file:
        file.write("# edited by hand\n")
    with pytest.raises(protos.StepFailed, match=f"differ from the contract: {stub};"):
        protos.check_drift(contract)


def test_a_stub_without_a_proto_is_named(contract: Path) -> None:
    (contract / "src/jobmesh/v1/gone_pb2.py").touch()
    with pytest.raises(protos.StepFailed, match=r"gone_pb2\.py"):
        protos.check_drift(contract)


def floor(name: str) -> Version:
    project = tomllib.loads((protos.ROOT / "pyproject.toml").read_text())["project"]
    (found,) = (r for r in map(Requirement, project["dependencies"]) if r.name == name)
    (version,) = (s.version for s in found.specifier if s.operator == ">=")
    return Version(version)


def demanded(stubs: str, pattern: str) -> set[Version]:
    texts = (path.read_text() for path in (protos.ROOT / "src/jobmesh/v1").glob(stubs))
    return {
        Version(re.sub(r",\s*", ".", match[1])) for t in texts if (match := re.search(pattern, t))
    }


def test_the_floor_of_grpcio_is_what_the_stubs_demand() -> None:
    assert demanded("*_pb2_grpc.py", r"GRPC_GENERATED_VERSION = '(.+)'") == {floor("grpcio")}


def test_the_floor_of_protobuf_is_what_the_stubs_demand() -> None:
    versions = demanded("*_pb2.py", r"Domain\.PUBLIC,\s*(\d+,\s*\d+,\s*\d+),")
    assert versions == {floor("protobuf")}
