"""One mesh for all tests that leave it as they found it, and ways to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

import jobmesh
from jobmesh.channels import open_channel
from jobmesh.client import Client, JobHandle
from jobmesh.dev.probe import answers_ok
from jobmesh.states import State
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub
from tests.support.mesh import DevMesh
from tests.support.wait import until

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub

APPS = ("--app", "tests.acceptance.everyday:app", "--app", "examples.flights.app:app")
TWO_OF_EACH = ("--gateways", "2", "--dispatchers", "2", "--runners", "2", "--schedulers", "2")
# Short, so that handlers that will not stop are soon left behind, or interrupted.
CANCEL_GRACE = {"JOBMESH_CANCEL_GRACE_SECONDS": "1"}
DRAIN_GRACE = {"JOBMESH_DRAIN_GRACE_SECONDS": "5"}


@pytest.fixture(scope="package")
def everyday_mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevMesh]:
    mesh = DevMesh(tmp_path_factory.mktemp("everyday"))
    with asyncio.Runner() as runner:
        try:
            options = (*APPS, *TWO_OF_EACH)
            runner.run(mesh.start(*options, port=0, **CANCEL_GRACE, **DRAIN_GRACE))
            runner.run(mesh.ready())
            yield mesh
        finally:
            runner.run(mesh.__aexit__(None, None, None))


@pytest.fixture
async def mesh(everyday_mesh: DevMesh) -> DevMesh:
    """A mesh of two of each service that serves the app of these tests and the flights.

    All of it serves, also if the test before this one has killed some of it.
    """
    await until(lambda: all_serve(everyday_mesh), 40, everyday_mesh.said, interval=0.1)
    return everyday_mesh


async def all_serve(mesh: DevMesh) -> bool:
    """Whether every process says that it is ready."""
    addresses = mesh.content()["http"].values()
    return all(await asyncio.gather(*(answers_ok(each, "/readyz") for each in addresses)))


@pytest.fixture
async def client(mesh: DevMesh) -> AsyncIterator[Client]:
    """A client of both gateways."""
    async with jobmesh.connect(",".join(mesh.content()["gateway"])) as client:
        yield client


@pytest.fixture
async def jobs(mesh: DevMesh) -> AsyncIterator[JobServiceAsyncStub]:
    """What the first gateway answers, without a client's help."""
    async with open_channel(mesh.gateway, health_check=False) as channel:
        yield JobServiceStub(channel)


async def is_running(job: JobHandle) -> bool:
    """Whether its handler has begun, and is not over."""
    info = await job.get()
    return info.state is State.RUNNING and info.start_time is not None
