"""Bad input gets an error that names the field, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import ListValue, Value
from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.channels import open_channel
from jobmesh.ids import new_id
from jobmesh.v1 import job_service_pb2 as pb
from jobmesh.v1 import queue_service_pb2 as queue_pb
from jobmesh.v1.job_pb2 import JobFilter, JobSpec, Payload, RestartPolicy, RetryPolicy
from jobmesh.v1.queue_pb2 import Queue, RateLimit
from jobmesh.v1.queue_service_pb2_grpc import QueueServiceStub
from tests.support import programs
from tests.support.mesh import DevMesh
from tests.support.refusals import refusal, status_refusal

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub
    from jobmesh.v1.queue_service_pb2_grpc import QueueServiceAsyncStub

TIMEOUT = 20.0
LIMIT = 1 << 20
YEAR_10000 = Timestamp(seconds=253_402_300_800)
INVALID = grpc.StatusCode.INVALID_ARGUMENT

COUNTS = """
SELECT (SELECT count(*) FROM jobmesh.jobs_live) + (SELECT count(*) FROM jobmesh.jobs_history),
       (SELECT count(*) FROM jobmesh.request_ids),
       (SELECT count(*) FROM jobmesh.operations),
       (SELECT array_agg(q ORDER BY q.name) FROM jobmesh.queues q)
"""


@pytest.fixture(autouse=True)
async def nothing_is_written(mesh: DevMesh) -> AsyncIterator[None]:
    connection = await asyncpg.connect(mesh.postgres, timeout=TIMEOUT, command_timeout=TIMEOUT)
    try:
        before = await connection.fetchrow(COUNTS)
        yield
        assert await connection.fetchrow(COUNTS) == before
    finally:
        await connection.close(timeout=TIMEOUT)


@pytest.fixture
async def queues(mesh: DevMesh) -> AsyncIterator[QueueServiceAsyncStub]:
    async with open_channel(mesh.gateway, health_check=False) as channel:
        yield QueueServiceStub(channel)


def deep_request(levels: int) -> bytes:
    """A submission whose payload is a number within so many arrays."""
    request = pb.SubmitJobRequest(job=JobSpec(type="add"))
    value = request.job.payload.json
    for _ in range(levels):
        value = value.list_value.values.add()
    value.number_value = 1
    return request.SerializeToString()


def with_json(**values: Any) -> Payload:
    payload = Payload()
    payload.json.struct_value.update(values)
    return payload


def with_value(value: Value) -> Payload:
    payload = Payload()
    payload.json.struct_value.fields["a"].CopyFrom(value)
    return payload


def raw(data: bytes, content_type: str = "") -> Payload:
    return Payload(data=data, content_type=content_type)


ALWAYS, NEVER = RestartPolicy.RESTART_POLICY_ALWAYS, RestartPolicy.RESTART_POLICY_NEVER


def retry(**settings: Any) -> RetryPolicy:
    return RetryPolicy(**settings)


# What is wrong in a job, and the fields that the error names.
BAD_JOBS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "no type": ({"type": ""}, {"job.type"}),
    "a type of 300 characters": ({"type": "x" * 300}, {"job.type"}),
    "a type with a space": ({"type": "a b"}, {"job.type"}),
    "a type with a NUL byte": ({"type": "a\0"}, {"job.type"}),
    "a type in Cyrillic": ({"type": "задача"}, {"job.type"}),
    "a queue of 201 characters": ({"queue": "q" * 201}, {"job.queue"}),
    "2^60 in json": ({"payload": with_json(a=[0, 2.0**60])}, {"job.payload.json.a[1]"}),
    "-2^60 in json": ({"payload": with_json(a={"b": -(2.0**60)})}, {"job.payload.json.a.b"}),
    "NaN in json": ({"payload": with_json(a=float("nan"))}, {"job.payload.json.a"}),
    "an unset value": ({"payload": with_value(Value())}, {"job.payload.json.a"}),
    "an array": ({"payload": Payload(json=Value(list_value=ListValue()))}, {"job.payload.json"}),
    "an array in data": ({"payload": raw(b"[1]")}, {"job.payload.data"}),
    "malformed data": ({"payload": raw(b'{"a": 1,}')}, {"job.payload.data"}),
    "data that is no UTF-8": ({"payload": raw(b'{"a": "\xff"}')}, {"job.payload.data"}),
    "half a character": ({"payload": raw(b'{"a": "\\ud800"}')}, {"job.payload.data"}),
    "deep data": (
        {"payload": raw(b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}")},
        {"job.payload.data"},
    ),
    "rather deep data": (
        {"payload": raw(b'{"a":' + b"[" * 101 + b"]" * 101 + b"}")},
        {"job.payload.data"},
    ),
    "a content type with a line break": (
        {"payload": raw(b"x", "a/b\r\nc: d")},
        {"job.payload.content_type"},
    ),
    "priority 10": ({"priority": 10}, {"job.priority"}),
    "priority -1": ({"priority": -1}, {"job.priority"}),
    "a negative timeout": ({"timeout": Duration(seconds=-1)}, {"job.timeout"}),
    "no timeout at all": ({"timeout": Duration()}, {"job.timeout"}),
    "a timeout of a thousand years": ({"timeout": Duration(seconds=10**11)}, {"job.timeout"}),
    "a malformed duration": ({"timeout": Duration(seconds=1, nanos=-1)}, {"job.timeout"}),
    "no attempts": ({"retry_policy": retry(max_attempts=0)}, {"job.retry_policy.max_attempts"}),
    "-1 attempts": ({"retry_policy": retry(max_attempts=-1)}, {"job.retry_policy.max_attempts"}),
    "jitter of 2": ({"retry_policy": retry(jitter=2)}, {"job.retry_policy.jitter"}),
    "backoff of NaN": (
        {"retry_policy": retry(backoff_coefficient=float("nan"))},
        {"job.retry_policy.backoff_coefficient"},
    ),
    "the year 10000": ({"run_at": YEAR_10000}, {"job.run_at"}),
    "a time before the year 1": ({"run_at": Timestamp(seconds=-(10**12))}, {"job.run_at"}),
    "a time with odd nanos": ({"run_at": Timestamp(nanos=10**9)}, {"job.run_at"}),
    "a negative delay": ({"delay": Duration(nanos=-1)}, {"job.delay"}),
    "an unknown restart policy": ({"restart": 99}, {"job.restart"}),
    "a job that runs for ever": ({"restart": ALWAYS}, {"job.restart"}),
    "a job that runs once at most": ({"restart": NEVER}, {"job.restart"}),
    "a NUL byte in a label": ({"labels": {"a": "b\0c"}}, {'job.labels["a"]'}),
    "a NUL byte in a label's name": ({"labels": {"a\0b": "c"}}, {'job.labels["a\\x00b"]'}),
    "an empty label": ({"labels": {"a": ""}}, {'job.labels["a"]'}),
    "33 labels": ({"labels": {str(n): "x" for n in range(33)}}, {"job.labels"}),
    "a parent that is no UUID": ({"parent_job_id": "mother"}, {"job.parent_job_id"}),
    "what is not built yet": (
        {"unique_key": "k", "shard_key": "s"},
        {"job.unique_key", "job.shard_key"},
    ),
    "five mistakes": (
        {"type": "", "priority": 10, "timeout": Duration(seconds=-1), "labels": {"": "x"}},
        {"job.type", "job.priority", "job.timeout", 'job.labels[""]'},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_JOBS)
async def test_a_bad_job_is_refused(jobs: JobServiceAsyncStub, case: str) -> None:
    changes, fields = BAD_JOBS[case]
    request = pb.SubmitJobRequest(job=JobSpec(**{"type": "add", **changes}), request_id=new_id())
    told = await refusal(jobs.SubmitJob(request, timeout=TIMEOUT))
    assert (told.code, told.reason, told.fields) == (INVALID, "INVALID_FIELD", fields)
    assert all(told.violations.values())


async def test_2_to_the_60_is_refused_with_a_way_out(jobs: JobServiceAsyncStub) -> None:
    job = JobSpec(type="add", payload=with_json(a=2.0**60))
    told = await refusal(jobs.SubmitJob(pb.SubmitJobRequest(job=job), timeout=TIMEOUT))
    assert "`data`" in told.violations["job.payload.json.a"]


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        (raw(b'{"a":"' + b"x" * LIMIT + b'"}'), "job.payload.data"),
        (raw(b"\xff" * (LIMIT + 1), "application/octet-stream"), "job.payload.data"),
        (with_json(a="x" * LIMIT), "job.payload.json"),
    ],
    ids=["data", "bytes", "json"],
)
async def test_a_payload_over_the_limit(
    jobs: JobServiceAsyncStub, payload: Payload, field: str
) -> None:
    request = pb.SubmitJobRequest(job=JobSpec(type="add", payload=payload))
    told = await refusal(jobs.SubmitJob(request, timeout=TIMEOUT))
    assert (told.code, told.reason, told.fields) == (INVALID, "PAYLOAD_TOO_LARGE", {field})
    assert told.metadata["limit"] == str(LIMIT)


@pytest.mark.parametrize("request_id", ["r" * 201, "a\0b", "\u200b"])
async def test_a_bad_request_id(jobs: JobServiceAsyncStub, request_id: str) -> None:
    request = pb.SubmitJobRequest(job=JobSpec(type="add"), request_id=request_id)
    told = await refusal(jobs.SubmitJob(request, timeout=TIMEOUT))
    assert (told.reason, told.fields) == ("INVALID_FIELD", {"request_id"})


Call = Callable[["JobServiceAsyncStub", str], Awaitable[object]]
BY_JOB_ID: dict[str, Call] = {
    "GetJob": lambda jobs, job_id: jobs.GetJob(pb.GetJobRequest(job_id=job_id), timeout=TIMEOUT),
    "WaitJob": lambda jobs, job_id: jobs.WaitJob(pb.WaitJobRequest(job_id=job_id), timeout=TIMEOUT),
    "CancelJob": lambda jobs, job_id: jobs.CancelJob(
        pb.CancelJobRequest(job_id=job_id), timeout=TIMEOUT
    ),
    "RetryJob": lambda jobs, job_id: jobs.RetryJob(
        pb.RetryJobRequest(job_id=job_id), timeout=TIMEOUT
    ),
    "ListAttempts": lambda jobs, job_id: jobs.ListAttempts(
        pb.ListAttemptsRequest(job_id=job_id), timeout=TIMEOUT
    ),
    "WatchJob": lambda jobs, job_id: read(
        jobs.WatchJob(pb.WatchJobRequest(job_id=job_id), timeout=TIMEOUT)
    ),
    "ReadLog": lambda jobs, job_id: read(
        jobs.ReadLog(pb.ReadLogRequest(job_id=job_id, follow=True), timeout=TIMEOUT)
    ),
}


async def read(stream: Any) -> list[object]:
    return [message async for message in stream]


@pytest.mark.parametrize("method", BY_JOB_ID)
async def test_a_job_id_that_is_no_uuid(jobs: JobServiceAsyncStub, method: str) -> None:
    for job_id in ("", "nonsense", "{01a22c71-303c-71fe-b06f-668117b038d3}", "0" * 32, "x\0"):
        told = await refusal(BY_JOB_ID[method](jobs, job_id))
        assert (told.code, told.reason, told.fields) == (INVALID, "INVALID_FIELD", {"job_id"})


@pytest.mark.parametrize("method", BY_JOB_ID)
async def test_a_job_that_does_not_exist(jobs: JobServiceAsyncStub, method: str) -> None:
    job_id = new_id()
    told = await refusal(BY_JOB_ID[method](jobs, job_id))
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "JOB_NOT_FOUND")
    assert job_id in told.message


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.ListJobsRequest(page_token="nonsense"), "page_token"),
        (pb.ListJobsRequest(page_token="ä" * 2000), "page_token"),
        (pb.ListJobsRequest(page_size=-1), "page_size"),
        (pb.ListJobsRequest(page_size=1001), "page_size"),
        (pb.ListJobsRequest(order=99), "order"),  # type: ignore[arg-type]
        (pb.ListJobsRequest(view=99), "view"),  # type: ignore[arg-type]
        (pb.ListJobsRequest(filter=JobFilter(states=[2, 99])), "filter.states[1]"),  # type: ignore[list-item]
        (pb.ListJobsRequest(filter=JobFilter(labels={"a": "\0"})), 'filter.labels["a"]'),
        (pb.ListJobsRequest(filter=JobFilter(queues=["a b"])), "filter.queues[0]"),
        (pb.ListJobsRequest(filter=JobFilter(parent_job_id="x")), "filter.parent_job_id"),
        (
            pb.ListJobsRequest(filter=JobFilter(create_time_from=YEAR_10000)),
            "filter.create_time_from",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_bad_list(
    jobs: JobServiceAsyncStub, request_: pb.ListJobsRequest, field: str
) -> None:
    told = await refusal(jobs.ListJobs(request_, timeout=TIMEOUT))
    assert (told.code, told.reason, told.fields) == (INVALID, "INVALID_FIELD", {field})


async def test_a_bad_watch_or_wait(jobs: JobServiceAsyncStub) -> None:
    job_id = new_id()
    watch = pb.WatchJobRequest(job_id=job_id, after_revision=-1, include=[99])  # type: ignore[list-item]
    told = await refusal(read(jobs.WatchJob(watch, timeout=TIMEOUT)))
    assert (told.reason, told.fields) == ("INVALID_FIELD", {"after_revision", "include[0]"})
    wait = pb.WaitJobRequest(job_id=job_id, timeout=Duration(seconds=-1))
    told = await refusal(jobs.WaitJob(wait, timeout=TIMEOUT))
    assert (told.reason, told.fields) == ("INVALID_FIELD", {"timeout"})
    get = pb.GetJobRequest(job_id=job_id, view=99)  # type: ignore[arg-type]
    told = await refusal(jobs.GetJob(get, timeout=TIMEOUT))
    assert (told.reason, told.fields) == ("INVALID_FIELD", {"view"})


async def test_a_bad_change_of_a_job(jobs: JobServiceAsyncStub) -> None:
    job_id = new_id()
    cancel = pb.CancelJobRequest(job_id=job_id, reason="r" * 1001, expected_revision=0)
    told = await refusal(jobs.CancelJob(cancel, timeout=TIMEOUT))
    assert (told.reason, told.fields) == ("INVALID_FIELD", {"reason", "expected_revision"})
    payload = with_json(a=2.0**60)
    told = await refusal(
        jobs.RetryJob(pb.RetryJobRequest(job_id=job_id, payload=payload), timeout=TIMEOUT)
    )
    assert (told.reason, told.fields) == ("INVALID_FIELD", {"payload.json.a"})
    ids = pb.BatchGetJobsRequest(job_ids=[job_id, "nonsense"])
    told = await refusal(jobs.BatchGetJobs(ids, timeout=TIMEOUT))
    assert (told.reason, told.fields) == ("INVALID_FIELD", {"job_ids[1]"})


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (
            queue_pb.UpdateQueueRequest(
                queue=Queue(name="fresh", max_running=3),
                update_mask=FieldMask(paths=["max_running", "colour", "depth", "retention"]),
            ),
            {f"update_mask.paths[{n}]" for n in (1, 2, 3)},
        ),
        (
            queue_pb.UpdateQueueRequest(
                queue=Queue(name="fresh", max_running=-1, rate_limit=RateLimit(limit=1))
            ),
            {"queue.max_running", "queue.rate_limit"},
        ),
        (
            queue_pb.UpdateQueueRequest(
                queue=Queue(name="", default_retry_policy=RetryPolicy(max_attempts=0))
            ),
            {"queue.name", "queue.default_retry_policy.max_attempts"},
        ),
    ],
    ids=["unknown paths", "values", "no name"],
)
async def test_a_bad_update_of_a_queue(
    queues: QueueServiceAsyncStub, request_: queue_pb.UpdateQueueRequest, fields: set[str]
) -> None:
    told = await refusal(queues.UpdateQueue(request_, timeout=TIMEOUT))
    assert (told.code, told.reason, told.fields) == (INVALID, "INVALID_FIELD", fields)


async def test_a_bad_list_or_pause_of_queues(queues: QueueServiceAsyncStub) -> None:
    bad = queue_pb.ListQueuesRequest(page_token="x", page_size=-5)
    told = await refusal(queues.ListQueues(bad, timeout=TIMEOUT))
    assert told.fields == {"page_token", "page_size"}
    pause = queue_pb.PauseQueueRequest(name="no queue", note="\0")
    told = await refusal(queues.PauseQueue(pause, timeout=TIMEOUT))
    assert told.fields == {"name", "note"}
    missing = queue_pb.PauseQueueRequest(name="no.such.queue")
    told = await refusal(queues.PauseQueue(missing, timeout=TIMEOUT))
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "QUEUE_NOT_FOUND")


def batch(*specs: JobSpec, partial: bool = False, **fields: Any) -> pb.BatchSubmitJobsRequest:
    requests = [pb.SubmitJobRequest(job=spec, **fields) for spec in specs]
    return pb.BatchSubmitJobsRequest(requests=requests, partial=partial)


GOOD = JobSpec(type="add", queue="never.made", payload=with_json(a=1))


async def test_an_empty_batch_and_one_too_many(jobs: JobServiceAsyncStub) -> None:
    told = await refusal(jobs.BatchSubmitJobs(batch(), timeout=TIMEOUT))
    assert (told.code, told.reason, told.fields) == (INVALID, "INVALID_FIELD", {"requests"})
    too_many = batch(*[GOOD] * 10_001)
    told = await refusal(jobs.BatchSubmitJobs(too_many, timeout=TIMEOUT))
    assert (told.code, told.reason, told.fields) == (INVALID, "INVALID_FIELD", {"requests"})
    assert "10001" in told.message


async def test_one_bad_job_refuses_an_atomic_batch(jobs: JobServiceAsyncStub) -> None:
    bad = JobSpec(type="", labels={"a": "\0"})
    told = await refusal(jobs.BatchSubmitJobs(batch(GOOD, bad, GOOD), timeout=TIMEOUT))
    assert told.fields == {"requests[1].job.type", 'requests[1].job.labels["a"]'}


async def test_a_partial_batch_of_bad_jobs_only(jobs: JobServiceAsyncStub) -> None:
    bad = batch(JobSpec(type=""), JobSpec(type="a", priority=10), partial=True)
    answer = await jobs.BatchSubmitJobs(bad, timeout=TIMEOUT)
    told = [status_refusal(result.error) for result in answer.results]
    assert [one.fields for one in told] == [
        {"requests[0].job.type"},
        {"requests[1].job.priority"},
    ]


WIRE = {
    "not protobuf at all": b"\xff\xfe\xfd",
    "a message that is cut off": b"\x0a\x7f\x12",
    "text that is no UTF-8": b"\x0a\x03\x12\x01\xff",
    "half a character": b"\x0a\x04x\xed\xa0\x80",
    "a value deeper than parsers go": deep_request(200),
}


@pytest.mark.parametrize("case", WIRE)
async def test_what_is_no_message_of_the_contract(mesh: DevMesh, case: str) -> None:
    opened: Any = open_channel(mesh.gateway, health_check=False)
    async with opened as channel:
        submit = channel.unary_unary("/jobmesh.v1.JobService/SubmitJob")
        told = await refusal(submit(WIRE[case], timeout=TIMEOUT))
        assert (told.code, told.reason, told.fields) == (INVALID, "INVALID_FIELD", {"request"})
        watch = channel.unary_stream("/jobmesh.v1.JobService/WatchJob")
        told = await refusal(read(watch(WIRE[case], timeout=TIMEOUT)))
        assert (told.code, told.reason) == (INVALID, "INVALID_FIELD")


async def test_a_message_over_16_mib(mesh: DevMesh) -> None:
    """gRPC itself refuses it, and the connection serves on."""
    options = (("grpc.max_send_message_length", -1),)
    opened: Any = open_channel(mesh.gateway, health_check=False, options=options)
    async with opened as channel:
        submit = channel.unary_unary("/jobmesh.v1.JobService/SubmitJob")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await submit(bytes(17 << 20), timeout=TIMEOUT)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        again = pb.SubmitJobRequest(job=JobSpec(type="")).SerializeToString()
        assert (await refusal(submit(again, timeout=TIMEOUT))).fields == {"job.type"}


async def test_huge_metadata(jobs: JobServiceAsyncStub) -> None:
    """gRPC itself refuses it, and the connection serves on."""
    bad = pb.SubmitJobRequest(job=JobSpec(type=""))
    metadata = tuple((f"x-{number}", "y" * 4000) for number in range(20))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await jobs.SubmitJob(bad, timeout=TIMEOUT, metadata=metadata)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (await refusal(jobs.SubmitJob(bad, timeout=TIMEOUT))).fields == {"job.type"}


async def test_errors_about_long_and_odd_names_stay_small_and_legible(
    jobs: JobServiceAsyncStub,
) -> None:
    names = ["é" * 200, "😀\u202e" * 90, "\x7f" * 150, "\ue000" * 99, "x" * 5000]
    bad = JobSpec(type="é" * 5000, labels=dict.fromkeys(names, "\0"))
    told = await refusal(jobs.SubmitJob(pb.SubmitJobRequest(job=bad), timeout=TIMEOUT))
    assert "job.type" in told.fields
    assert len(told.fields) > 1


@pytest.mark.parametrize("odd", ["é😀", "\n\r\0", "\x7f\u202e"])
async def test_errors_that_quote_the_caller_are_legible(
    jobs: JobServiceAsyncStub, odd: str
) -> None:
    request = pb.BatchGetJobsRequest(job_ids=[odd * 50])
    told = await refusal(jobs.BatchGetJobs(request, timeout=TIMEOUT))
    assert (told.code, told.fields) == (INVALID, {"job_ids[0]"})


COMMANDS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "malformed JSON": (("submit", "add", '{"a": 1,}'), 64, "malformed JSON at line 1, column"),
    "an array": (("submit", "add", "[1]"), 64, "must be a JSON object"),
    "half a character": (("submit", "add", '{"a": "\\ud800"}'), 64, "JSON"),
    "deep JSON": (("submit", "add", '{"a":' + "[" * 20_000 + "]" * 20_000 + "}"), 64, "nested"),
    "rather deep JSON": (
        ("submit", "add", '{"a":' + "[" * 120 + "]" * 120 + "}"),
        2,
        "job.payload.data: is nested",
    ),
    "no type": (("submit", "", "{}"), 2, "job.type: is required"),
    "a type of 300 characters": (("submit", "x" * 300), 2, "job.type: has 300 characters"),
    "a negative timeout": (("submit", "add", "--timeout=-1"), 64, "--timeout"),
    "no attempts": (("submit", "add", "--max-attempts", "0"), 64, "--max-attempts"),
    "the year 10000": (("submit", "add", "--run-at", "10000-01-01T00:00Z"), 64, "1 to 9999"),
    "priority 10": (("submit", "add", "--priority", "10"), 64, "--priority"),
    "a label's control character": (("submit", "add", "-l", "a=\x01"), 2, 'job.labels["a"]'),
    "text that is no UTF-8": (("submit", "add", "-l", "a=\udcff"), 64, "not Unicode"),
    "no UUID": (("get", "nonsense"), 2, "job_id: must be a UUID"),
    "no UUID to watch": (("watch", "nonsense"), 2, "job_id: must be a UUID"),
    "an unknown state": (("list", "--state", "ASLEEP"), 64, "--state"),
    "a negative limit": (("queues", "update", "never.made", "--max-running", "-1"), 64, "running"),
}


@pytest.mark.timeout(180)
async def test_the_command_line_says_what_is_wrong(mesh: DevMesh, tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    large.write_text(json.dumps({"a": "x" * LIMIT}))
    larger = tmp_path / "larger.json"
    larger.write_text(json.dumps({"a": "x" * (5 << 20)}))
    cases = {
        **COMMANDS,
        "over the limit": (("submit", "add", "-f", str(large)), 2, "job.payload.data: is 10"),
        "over any limit": (("submit", "add", "-f", str(larger)), 2, "job.payload: is 52"),
    }
    few = asyncio.Semaphore(4)

    async def problem(name: str, words: tuple[str, ...], code: int, said: str) -> str:
        async with few:
            done = await programs.jobmesh(mesh.gateway, *words)
        short = (done.code, done.output[-300:], done.errors[-600:])
        right = done.code == code and said in done.errors and "Traceback" not in done.errors
        return "" if right and not done.output else f"{name}: {short}"

    problems = await asyncio.gather(*(problem(name, *case) for name, case in cases.items()))
    assert not any(problems), "\n".join(filter(None, problems))
