from __future__ import annotations

import subprocess
import sys

import pytest

import jobmesh


def test_every_public_name_can_be_had() -> None:
    assert [name for name in jobmesh.__all__ if not hasattr(jobmesh, name)] == []
    assert set(jobmesh.__all__) <= set(dir(jobmesh))


def test_the_version_is_the_distributions() -> None:
    assert jobmesh.__version__.count(".") == 2


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        jobmesh.Nothing  # noqa: B018


def test_declaring_tasks_loads_neither_grpc_nor_protobuf() -> None:
    """They take most of the time of an import, and a module of handlers needs neither."""
    code = (
        "import sys; from jobmesh import App, JobContext, Retry; App().task('a')(lambda: 1); "
        "print([m for m in ('grpc', 'google.protobuf', 'asyncpg', 'rich') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
