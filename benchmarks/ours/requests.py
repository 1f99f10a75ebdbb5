"""The requests that the benchmark sends: small jobs, of the size of the floors' messages."""

from __future__ import annotations

from jobmesh.v1 import job_pb2
from jobmesh.v1 import job_service_pb2 as pb

QUEUE = "bench"


def submission(task: str, queue: str = QUEUE) -> pb.SubmitJobRequest:
    """A job without arguments."""
    payload = job_pb2.Payload(data=b"{}", content_type="application/json")
    return pb.SubmitJobRequest(job=job_pb2.JobSpec(queue=queue, type=task, payload=payload))


def batch(task: str, count: int, queue: str = QUEUE) -> pb.BatchSubmitJobsRequest:
    """So many jobs in one call."""
    return pb.BatchSubmitJobsRequest(requests=[submission(task, queue)] * count)
