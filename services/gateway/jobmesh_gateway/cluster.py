"""MeshService."""

from __future__ import annotations

import asyncio

from jobmesh import __version__
from jobmesh.errors import BackendUnavailable, DeadlineExceeded
from jobmesh.v1 import mesh_service_pb2 as pb
from jobmesh.v1.dispatch_service_pb2 import CountRunnersRequest
from jobmesh.v1.mesh_service_pb2_grpc import MeshServiceServicer
from jobmesh.v1.scheduler_service_pb2 import DescribeSchedulerRequest
from jobmesh_gateway.dispatchers import Context, Dispatchers, answer
from jobmesh_gateway.schedulers import Schedulers, scheduled

FULL_NAME = "jobmesh.v1.MeshService"
# Who asks what is wrong must not wait for what is wrong.
PART_SECONDS = 2.0


class MeshServicer(MeshServiceServicer):
    """What the protos say of MeshService."""

    def __init__(self, dispatchers: Dispatchers, schedulers: Schedulers, limits: pb.Limits) -> None:
        self._dispatchers = dispatchers
        self._schedulers = schedulers
        self._limits = limits

    async def GetClusterInfo(
        self, request: pb.GetClusterInfoRequest, context: Context
    ) -> pb.ClusterInfo:
        info = pb.ClusterInfo(version=__version__, limits=self._limits)
        await asyncio.gather(self._add_leader(info), self._add_runners(info))
        info.unreachable.sort()
        return info

    async def _add_leader(self, info: pb.ClusterInfo) -> None:
        call = self._schedulers.stub.DescribeScheduler(
            DescribeSchedulerRequest(), timeout=PART_SECONDS
        )
        try:
            described = await scheduled(call)
        except (BackendUnavailable, DeadlineExceeded):
            info.unreachable.append("scheduler")
            return
        if described.leader_id:
            info.leader.CopyFrom(
                pb.Leader(
                    scheduler_id=described.leader_id,
                    epoch=described.epoch,
                    version=described.version,
                )
            )

    async def _add_runners(self, info: pb.ClusterInfo) -> None:
        call = self._dispatchers.stub.CountRunners(CountRunnersRequest(), timeout=PART_SECONDS)
        try:
            counted = await answer(call)
        except (BackendUnavailable, DeadlineExceeded):
            info.unreachable.append("dispatcher")
            return
        info.runners.extend(counted.groups)
        info.dispatchers = counted.dispatchers
