"""grpcurl and buf know of the mesh only what reflection tells, and that is enough."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.message import Message

from jobmesh.channels import open_channel
from jobmesh.client import Client
from jobmesh.client.calls import SERVICES
from jobmesh.ids import new_id
from jobmesh.v1.dispatch_service_pb2 import DescribeDispatcherRequest
from jobmesh.v1.dispatch_service_pb2_grpc import DispatchServiceStub
from jobmesh.v1.job_pb2 import Job, JobEvent, JobState, Payload
from jobmesh.v1.job_service_pb2 import SubmitJobResponse
from tests.support.mesh import DevMesh
from tests.support.programs import Done, run

if TYPE_CHECKING:
    from jobmesh.v1.dispatch_service_pb2_grpc import DispatchServiceAsyncStub

M = TypeVar("M", bound=Message)

MOST_EXACT = 2**53 - 1


async def grpcurl(mesh: DevMesh, *words: str, body: Any = None) -> Done:
    data = () if body is None else ("-d", json.dumps(body))
    return await run("grpcurl", "-plaintext", *data, mesh.gateway, *words)


async def call(mesh: DevMesh, method: str, body: Any, answer: M) -> M:
    """The one message that grpcurl prints for a call of JobService."""
    done = await grpcurl(mesh, f"jobmesh.v1.JobService/{method}", body=body)
    return json_format.Parse(done.succeeded(), answer)


async def submit(mesh: DevMesh, body: Any) -> Job:
    answer = await call(mesh, "SubmitJob", body, SubmitJobResponse())
    assert answer.created
    return answer.job


async def buf_curl(mesh: DevMesh, method: str, body: Any, *options: str) -> Done:
    return await run(
        *("buf", "curl", "--protocol", "grpc", "--http2-prior-knowledge", *options),
        *("-d", json.dumps(body), f"http://{mesh.gateway}/jobmesh.v1.{method}"),
    )


def events_in(text: str) -> list[JobEvent]:
    """The messages that follow each other in what a tool printed."""
    decoder, text, events = json.JSONDecoder(), text.strip(), []
    while text:
        value, end = decoder.raw_decode(text)
        events.append(json_format.ParseDict(value, JobEvent()))
        text = text[end:].lstrip()
    return events


def plain(payload: Payload) -> Any:
    """What a payload that came as `json` holds."""
    assert payload.WhichOneof("content") == "json"
    return json_format.MessageToDict(payload.json)


def submission(type_name: str, values: dict[str, Any]) -> dict[str, Any]:
    return {"job": {"type": type_name, "payload": {"json": values}}}


async def test_list_names_the_public_services_and_no_others(mesh: DevMesh) -> None:
    listed = (await grpcurl(mesh, "list")).succeeded().split()
    public = {f"jobmesh.v1.{name}Service" for name in ("Job", "Mesh", "Queue", "Schedule")}
    assert public <= set(listed)
    assert set(SERVICES) == public  # whose calls clients repeat
    assert {name for name in listed if name.startswith("jobmesh.")} == public
    assert "grpc.health.v1.Health" in listed
    methods = (await grpcurl(mesh, "list", "jobmesh.v1.JobService")).succeeded().split()
    assert {f"jobmesh.v1.JobService.{name}" for name in ("SubmitJob", "WatchJob")} <= set(methods)


async def test_describe_shows_services_methods_and_messages(mesh: DevMesh) -> None:
    service = (await grpcurl(mesh, "describe", "jobmesh.v1.JobService")).succeeded()
    assert "rpc WatchJob ( .jobmesh.v1.WatchJobRequest ) returns ( stream .jobmesh.v1" in service
    method = (await grpcurl(mesh, "describe", "jobmesh.v1.JobService.CancelJob")).succeeded()
    assert "( .jobmesh.v1.CancelJobRequest ) returns ( .jobmesh.v1.Job )" in method
    spec = (await grpcurl(mesh, "describe", ".jobmesh.v1.JobSpec")).succeeded()
    assert ".google.protobuf.Duration timeout = 6;" in spec
    assert "optional int32 priority = 4;" in spec


async def test_the_services_of_dispatchers_are_not_served_at_the_edge(mesh: DevMesh) -> None:
    done = await grpcurl(mesh, "describe", "jobmesh.v1.DispatchService")
    assert "Symbol not found" in done.errors
    async with open_channel(mesh.gateway) as channel:
        stub: DispatchServiceAsyncStub = DispatchServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.DescribeDispatcher(DescribeDispatcherRequest(), timeout=5)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_integers_typed_as_json_arrive_as_integers(mesh: DevMesh) -> None:
    values = {
        "one": 1,
        "whole": 2.0,
        "part": 0.5,
        "most": MOST_EXACT,
        "least": -MOST_EXACT,
        "deep": {"rows": [1, [2, {"three": 3}]], "none": None, "yes": True},
        "text": "é 😀",
    }
    job = await submit(mesh, submission("describe", values))
    job = await call(mesh, "WaitJob", {"job_id": job.job_id}, Job())
    result = plain(job.result)
    assert result["values"] == values
    assert result["types"] == {
        "one": "int",
        "whole": "int",
        "part": "float",
        "most": "int",
        "least": "int",
        "deep": {"rows": ["int", ["int", {"three": "int"}]], "none": "NoneType", "yes": "bool"},
        "text": "str",
    }
    assert plain(job.spec.payload) == values


async def test_integers_from_2_to_the_53_travel_as_data(client: Client, mesh: DevMesh) -> None:
    """A Value may not hold them: it is refused going in, and not used coming out."""
    refused = await grpcurl(
        mesh, "jobmesh.v1.JobService/SubmitJob", body=submission("big", {"value": 2**53})
    )
    assert "Code: InvalidArgument" in refused.errors
    assert "job.payload.json.value" in refused.errors
    assert "`data`" in refused.errors
    job = await client.submit("big", value=2**53)
    assert await job.result(10) == {"value": 2**53, "next": 2**53 + 1}
    read = await call(mesh, "GetJob", {"job_id": job.id}, Job())
    assert read.result.data == b'{"value":%d,"next":%d}' % (2**53, 2**53 + 1)


async def test_grpcurl_watches_a_job_to_its_end(mesh: DevMesh) -> None:
    job = await submit(mesh, submission("flaky", {"failures": 1}))
    done = await grpcurl(mesh, "jobmesh.v1.JobService/WatchJob", body={"job_id": job.job_id})
    first, *events, last = events_in(done.succeeded())
    assert first.WhichOneof("event") == "snapshot"
    assert last.terminal.state == JobState.JOB_STATE_SUCCEEDED
    assert plain(last.terminal.result) == 2
    revisions = [e.state_changed.revision for e in events if e.HasField("state_changed")]
    assert revisions == list(range(first.revision + 1, last.revision + 1))


async def test_grpcurl_cancels_a_job(mesh: DevMesh) -> None:
    body: dict[str, Any] = submission("hold", {})
    body["job"]["delay"] = "3600s"
    job = await submit(mesh, body)
    assert job.state == JobState.JOB_STATE_SCHEDULED
    cancel = {"job_id": job.job_id, "reason": "typed by hand"}
    job = await call(mesh, "CancelJob", cancel, Job())
    assert (job.state, job.cancel_reason) == (JobState.JOB_STATE_CANCELLED, "typed by hand")


async def test_names_may_be_typed_as_protobuf_writes_them_in_json(mesh: DevMesh) -> None:
    body = {"job": {"type": "add", "retryPolicy": {"maxAttempts": 7}}, "validateOnly": True}
    answer = await call(mesh, "SubmitJob", body, SubmitJobResponse())
    assert answer.job.spec.retry_policy.max_attempts == 7


async def test_error_details_can_be_read(mesh: DevMesh) -> None:
    body = {"job": {"type": "x" * 300, "timeout": "-1s"}}
    done = await grpcurl(mesh, "jobmesh.v1.JobService/SubmitJob", body=body)
    assert done.code != 0
    assert "Code: InvalidArgument" in done.errors
    for word in (
        "INVALID_FIELD",
        "google.rpc.BadRequest",
        '"job.type"',
        '"job.timeout"',
        "jobmesh",
    ):
        assert word in done.errors, done.errors
    missing = new_id()
    done = await grpcurl(mesh, "jobmesh.v1.JobService/GetJob", body={"job_id": missing})
    assert "Code: NotFound" in done.errors
    for word in ("JOB_NOT_FOUND", "google.rpc.ResourceInfo", missing):
        assert word in done.errors, done.errors


async def test_buf_submits_and_watches_from_reflection_alone(mesh: DevMesh) -> None:
    body = submission("describe", {"n": 7, "deep": [{"m": MOST_EXACT}]})
    answer = (await buf_curl(mesh, "JobService/SubmitJob", body)).succeeded()
    job = json_format.Parse(answer, SubmitJobResponse()).job
    done = await buf_curl(mesh, "JobService/WatchJob", {"jobId": job.job_id})
    result = plain(events_in(done.succeeded())[-1].terminal.result)
    assert result["values"] == {"n": 7, "deep": [{"m": MOST_EXACT}]}
    assert result["types"] == {"n": "int", "deep": [{"m": "int"}]}


@pytest.mark.parametrize("reflection", ["grpc-v1", "grpc-v1alpha"])
async def test_buf_reads_errors_of_either_reflection(mesh: DevMesh, reflection: str) -> None:
    options = ("--reflect-protocol", reflection)
    done = await buf_curl(mesh, "JobService/GetJob", {"jobId": "nonsense"}, *options)
    assert done.code != 0
    error = json.loads(done.errors or done.output)
    assert error["code"] == "invalid_argument"
    assert "job_id" in error["message"]
    kinds = {detail["type"].rpartition(".")[2] for detail in error["details"]}
    assert kinds == {"ErrorInfo", "BadRequest"}
