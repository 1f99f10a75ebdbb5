"""A bare grpc.aio server on uvloop that answers SubmitJob with a constant: `… PORT`."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import grpc.aio
import uvloop

from jobmesh.v1 import job_pb2, job_service_pb2, job_service_pb2_grpc

ANSWER = job_service_pb2.SubmitJobResponse(
    job=job_pb2.Job(job_id="0199c0de-0000-7000-8000-000000000000"), created=True
)


class Constant(job_service_pb2_grpc.JobServiceServicer):
    async def SubmitJob(
        self,
        request: job_service_pb2.SubmitJobRequest,
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> job_service_pb2.SubmitJobResponse:
        return ANSWER


async def serve(port: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    job_service_pb2_grpc.add_JobServiceServicer_to_server(Constant(), server)  # type: ignore[abstract]
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await stop.wait()
    await server.stop(0)


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
