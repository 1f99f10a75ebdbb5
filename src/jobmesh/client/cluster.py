"""The mesh itself: who leads, its runners, its limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from jobmesh.v1 import mesh_service_pb2


@dataclass(frozen=True, slots=True)
class RunnerGroup:
    """Attached runners of one version; ``slots`` are those of all of them."""

    version: str
    runners: int
    slots: int


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The mesh as one gateway saw it.

    ``version`` is the gateway's, ``leader_id`` None if no scheduler leads or none answered,
    ``dispatchers`` how many have runners, ``unreachable`` what did not answer, sizes in bytes.
    """

    version: str
    leader_id: str | None
    epoch: int | None
    runners: tuple[RunnerGroup, ...]
    dispatchers: int
    payload_limit: int
    batch_jobs_limit: int
    batch_limit: int
    watches_limit: int
    unreachable: tuple[str, ...]
    proto: mesh_service_pb2.ClusterInfo = field(repr=False, compare=False)


def cluster_info(info: mesh_service_pb2.ClusterInfo) -> ClusterInfo:
    """The message as a :class:`ClusterInfo`."""
    led = info.HasField("leader")
    return ClusterInfo(
        version=info.version,
        leader_id=info.leader.scheduler_id if led else None,
        epoch=info.leader.epoch if led else None,
        runners=tuple(RunnerGroup(g.version, g.runners, g.slots) for g in info.runners),
        dispatchers=info.dispatchers,
        payload_limit=info.limits.payload_bytes,
        batch_jobs_limit=info.limits.batch_jobs,
        batch_limit=info.limits.batch_bytes,
        watches_limit=info.limits.watches,
        unreachable=tuple(info.unreachable),
        proto=info,
    )
