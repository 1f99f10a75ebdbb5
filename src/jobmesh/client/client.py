"""The async client: one for a program, shared by all its tasks."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jobmesh.client.calls import Calls, Connection
from jobmesh.client.cluster import ClusterInfo, cluster_info
from jobmesh.client.credentials import Credentials
from jobmesh.client.grouping import Submitting
from jobmesh.client.handle import JobHandle
from jobmesh.client.info import JobInfo
from jobmesh.client.listing import Order, job_filter, list_jobs
from jobmesh.client.options import SubmitOptions
from jobmesh.client.queues import Queues
from jobmesh.client.schedules import Schedules
from jobmesh.client.submitter import Submitter
from jobmesh.v1.mesh_service_pb2 import GetClusterInfoRequest

DEFAULT_ADDRESS = "127.0.0.1:7480"
DEFAULT_TIMEOUT = 30.0


def connect(
    address: str | None = None,
    *,
    token_file: str | Path | None = None,
    namespace: str = "",
    timeout: float = DEFAULT_TIMEOUT,
    patience: float | None = None,
) -> Client:
    """A client of the mesh: ``async with jobmesh.connect("127.0.0.1:7480") as mesh:``.

    Args:
        address: of one gateway, or of several, separated by commas, that share the calls;
            ``$JOBMESH_ADDRESS`` by default, else ``127.0.0.1:7480``.
        token_file: a file with the caller's token. Reserved: meshes do not ask for one yet.
        namespace: reserved; everything is in ``default``.
        timeout: seconds that a call may take, all its tries together.
        patience: seconds for which a call tries again while no gateway answers; as ``timeout`` by
            default. A watch, or a log, that has begun tries for the longer of the two.

    Raises:
        ValueError: the namespace is another one; on entering, if the address is malformed.
    """
    if namespace not in ("", "default"):
        raise ValueError(f"namespace {namespace!r}: there is none but default yet")
    return Client(
        Connection(
            address=address or os.environ.get("JOBMESH_ADDRESS") or DEFAULT_ADDRESS,
            timeout=timeout,
            patience=timeout if patience is None else patience,
            credentials=Credentials(Path(token_file) if token_file else None, namespace),
        )
    )


class Client(Submitter):
    """A connection to the mesh; use :func:`connect`, and ``async with``."""

    def __init__(self, connection: Connection) -> None:
        calls = Calls(connection)
        super().__init__(calls, Submitting(calls), SubmitOptions())
        self.queues = Queues(calls)
        self.schedules = Schedules(calls)

    @property
    def address(self) -> str:
        """The gateways' address, as given."""
        return self._calls.connection.address

    async def cluster(self) -> ClusterInfo:
        """Who leads, which runners are attached, and what the limits are."""
        request = GetClusterInfoRequest()
        return cluster_info(await self._calls.unary(self._calls.mesh.GetClusterInfo, request))

    async def __aenter__(self) -> Self:
        await self._calls.open()
        await self._submitting.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for submissions on their way, then hang up; may be called again."""
        try:
            await self._submitting.stop()
        finally:
            await self._calls.close()

    def job(self, job_id: str) -> JobHandle:
        """The job of that id; nothing is called, and so it may not exist."""
        return JobHandle(self._calls, job_id)

    def list(
        self,
        *,
        order: Order = "newest",
        full: bool = False,
        limit: int | None = None,
        **criteria: Any,
    ) -> AsyncGenerator[JobInfo, None]:
        """Jobs, newest first: ``async for job in mesh.list(state="DEAD", queue="reports"):``.

        Args:
            order: ``newest`` or ``oldest`` first.
            full: with payload, result, checkpoint, traceback and history; slower.
            limit: how many at most.
            criteria: as in :func:`jobmesh.client.listing.job_filter`: ``queue``, ``type``,
                ``state`` (a name or several), ``labels``, ``created_from``, …

        Raises:
            TypeError, ValueError: the filter is malformed.
            JobmeshError: while iterating, if the list cannot be read.
        """
        return list_jobs(self._calls, job_filter(**criteria), order=order, full=full, limit=limit)
