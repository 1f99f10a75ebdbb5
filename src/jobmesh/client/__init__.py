"""The async client::

    async with jobmesh.connect("127.0.0.1:7480") as mesh:
        job = await mesh.submit(generate, month="2026-10")
        async for event in job.watch():
            print(event)
        print(await job.result())

What it promises:

- A submission that returned is durable. It carries a ``request_id``, and so is repeated by itself
  while no gateway answers, without making two jobs.
- A watch tells every change of state once and in order, through any number of lost connections.
- Every call has a deadline; every error is a :class:`jobmesh.errors.JobmeshError`.
"""

from __future__ import annotations

from jobmesh.client.client import Client, connect
from jobmesh.client.cluster import ClusterInfo, RunnerGroup
from jobmesh.client.events import (
    ChangesLost,
    CheckpointStored,
    Ended,
    Event,
    Logged,
    ProgressMade,
    Snapshot,
    StateChanged,
)
from jobmesh.client.handle import JobHandle
from jobmesh.client.info import Attempt, Change, Failure, JobInfo, LogLine, Progress
from jobmesh.client.options import SubmitOptions
from jobmesh.client.outcome import JobFailed, JobNotSucceeded, JobWasCancelled
from jobmesh.client.queues import QueueInfo, Queues
from jobmesh.client.schedules import FiringInfo, Planned, ScheduleInfo, Schedules
from jobmesh.client.states import AttemptOutcome, HoldReason, JobReason, LogLevel
from jobmesh.client.submission import Submission
from jobmesh.client.submitter import Submitter
from jobmesh.states import State

__all__ = [
    "Attempt",
    "AttemptOutcome",
    "Change",
    "ChangesLost",
    "CheckpointStored",
    "Client",
    "ClusterInfo",
    "Ended",
    "Event",
    "Failure",
    "FiringInfo",
    "HoldReason",
    "JobFailed",
    "JobHandle",
    "JobInfo",
    "JobNotSucceeded",
    "JobReason",
    "JobWasCancelled",
    "LogLevel",
    "LogLine",
    "Logged",
    "Planned",
    "Progress",
    "ProgressMade",
    "QueueInfo",
    "Queues",
    "RunnerGroup",
    "ScheduleInfo",
    "Schedules",
    "Snapshot",
    "State",
    "StateChanged",
    "Submission",
    "SubmitOptions",
    "Submitter",
    "connect",
]
