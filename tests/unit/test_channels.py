"""Targets and the service config of client channels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.channels import (
    join_address,
    resolve,
    service_config,
    split_address,
    target_uri,
)


@pytest.mark.parametrize(
    ("targets", "uri"),
    [
        ("127.0.0.1:7480", "ipv4:127.0.0.1:7480"),
        ("10.0.0.1:1, 10.0.0.2:2", "ipv4:10.0.0.1:1,10.0.0.2:2"),
        (["localhost:1", "127.0.0.1:2"], "ipv4:127.0.0.1:1,127.0.0.1:2"),
        ("[::1]:7480", "ipv6:[::1]:7480"),
        ("mesh.example:7480", "dns:///mesh.example:7480"),
    ],
)
def test_targets_become_what_grpc_resolves(targets: str | list[str], uri: str) -> None:
    assert target_uri(targets) == uri


@pytest.mark.parametrize(
    "targets",
    ["", " , ", "host", "host:", ":1", "host:x", "host:70000", "::1:5", "http://host:1", "a:1,b:2"],
)
def test_bad_targets_are_refused_with_a_hint(targets: str) -> None:
    with pytest.raises(ValueError, match="address"):
        target_uri(targets)


@given(st.ip_addresses(), st.integers(0, 65535))
def test_addresses_split_and_join(host: object, port: int) -> None:
    assert split_address(join_address(str(host), port)) == (str(host), port)


def test_no_service_means_all_are_retried() -> None:
    assert service_config()["methodConfig"][0]["name"] == [{}]
    named = service_config(["jobmesh.v1.JobService"])["methodConfig"][0]
    assert named["name"] == [{"service": "jobmesh.v1.JobService"}]
    assert "timeout" not in named


def test_health_checks_can_be_left_out() -> None:
    assert service_config()["healthCheckConfig"] == {"serviceName": ""}
    assert "healthCheckConfig" not in service_config(health_check=False)


async def test_several_names_are_resolved_and_one_is_left_to_grpc() -> None:
    assert await resolve("localhost:1,127.0.0.1:2,localhost:1") == ["127.0.0.1:1", "127.0.0.1:2"]
    assert await resolve(["mesh.example:1"]) == ["mesh.example:1"]


async def test_a_name_that_is_unknown_does_not_keep_one_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await resolve("gone.invalid:1,127.0.0.1:2") == ["127.0.0.1:2"]
    assert "gone.invalid" in caplog.text
    with pytest.raises(OSError, match=r"gone\.invalid.*lost\.invalid"):
        await resolve("gone.invalid:1,lost.invalid:2")
