"""A queue that lets few jobs run at once: how fast its slots go from one job to the next."""

from __future__ import annotations

import grpc.aio
from google.protobuf.field_mask_pb2 import FieldMask

from benchmarks.ours.requests import batch
from jobmesh.v1 import queue_service_pb2 as queues
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub
from jobmesh.v1.queue_pb2 import Queue
from jobmesh.v1.queue_service_pb2_grpc import QueueServiceStub

QUEUE = "bench-limited"
AT_ONCE = 3
TIMEOUT = 60.0


async def submit(channel: grpc.aio.Channel, count: int) -> None:
    """Let so many jobs wait in a queue of which three may run."""
    limit = Queue(name=QUEUE, max_running=AT_ONCE)
    change = queues.UpdateQueueRequest(queue=limit, update_mask=FieldMask(paths=["max_running"]))
    await QueueServiceStub(channel).UpdateQueue(change, timeout=TIMEOUT)
    jobs = batch("bench.noop", count, QUEUE)
    answer = await JobServiceStub(channel).BatchSubmitJobs(jobs, timeout=TIMEOUT)
    created = sum(result.ok.created for result in answer.results)
    if created != count:
        raise RuntimeError(f"{created} of {count} jobs were created")
