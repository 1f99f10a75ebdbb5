"""The real program against a real gRPC peer whose jobs move as the test says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import signal
import sys
from dataclasses import dataclass
from typing import Any

import pytest

import jobmesh
from jobmesh.errors import InvalidFields
from jobmesh.ids import new_id
from jobmesh.v1 import job_pb2
from tests.integration.client.conftest import Gateway
from tests.support import forked
from tests.support.process import clean_environment
from tests.support.wait import until

PROGRAM = (sys.executable, "-m", "jobmesh.cli.main")
TIMEOUT = 30.0


@dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """The output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


class Cli:
    """Runs `jobmesh` with the address in its environment."""

    def __init__(self, address: str) -> None:
        self.environment = clean_environment() | {"JOBMESH_ADDRESS": address, "TZ": "UTC"}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *PROGRAM,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment,
        )

    async def __call__(self, *arguments: str, stdin: str | None = None) -> Done:
        code, out, err = await forked.run(arguments, self.environment, stdin or "", TIMEOUT)
        assert "Traceback" not in err, err
        return Done(code, out, err)


async def finished(process: asyncio.subprocess.Process) -> Done:
    async with asyncio.timeout(TIMEOUT):
        out, err = await process.communicate()
    assert process.returncode is not None
    assert b"Traceback" not in err, err.decode()
    return Done(process.returncode, out.decode(), err.decode())


@pytest.fixture
def cli(gateway: Gateway) -> Cli:
    return Cli(gateway.address)


async def first_job(gateway: Gateway) -> str:
    return str(await until(lambda: next(iter(gateway.jobs.jobs), ""), 20, "a job is submitted"))


async def test_submit_prints_the_id_and_nothing_else(gateway: Gateway, cli: Cli) -> None:
    done = await cli(
        "submit", "t", '{"month": "2026-10", "rows": 1152921504606846977}', "-a", "rows=3",
        "--queue", "q", "-p", "9", "--timeout", "10m", "--max-attempts", "2", "-l", "team=a",
        "--delay", "5m",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    spec = gateway.jobs.jobs[done.out.strip()].spec
    assert spec.payload.data == b'{"month":"2026-10","rows":3}'
    assert (spec.queue, spec.priority, spec.timeout.seconds) == ("q", 9, 600)
    assert (spec.delay.seconds, spec.retry_policy.max_attempts) == (300, 2)
    assert dict(spec.labels) == {"team": "a"}


async def test_arguments_can_come_from_the_standard_input(gateway: Gateway, cli: Cli) -> None:
    done = await cli("submit", "t", "--file", "-", "-o", "json", stdin='{"a": [1, 2]}')
    assert done.code == 0
    (answer,) = done.lines
    assert answer["created"] is True
    assert gateway.jobs.jobs[answer["job_id"]].spec.payload.data == b'{"a":[1,2]}'
    bad = await cli("submit", "t", "--file", "-", stdin='{"a": [1, 2}')
    assert bad.code == 64
    assert "standard input: malformed JSON at line 1, column 12" in bad.err


async def test_a_request_id_submitted_again_is_the_same_job(cli: Cli) -> None:
    first = await cli("submit", "t", "--request-id", "r")
    second = await cli("submit", "t", "--request-id", "r")
    assert first.out == second.out
    assert "before" in second.err


async def test_what_the_mesh_refuses_is_told_field_by_field(gateway: Gateway, cli: Cli) -> None:
    gateway.jobs.fail = [InvalidFields([("job.type", "is empty"), ("job.queue", "is too long")])]
    done = await cli("submit", "")
    assert done.code == 2
    assert done.err == "jobmesh: job.type: is empty\njobmesh: job.queue: is too long\n"


async def test_watching_prints_plain_lines_where_nobody_watches(gateway: Gateway, cli: Cli) -> None:
    process = await cli.start("submit", "t", "--watch")
    job_id = await first_job(gateway)
    await gateway.jobs.finish(job_id, b'{"rows":3}')
    done = await finished(process)
    assert done.code == 0
    lines = [line.split(" ", 1)[1] for line in done.out.splitlines()[:4]]
    assert lines == [f"job {job_id} (t)", "QUEUED", "RUNNING attempt 1", "SUCCEEDED"]
    assert done.out.splitlines()[4:] == ["result: {", '  "rows": 3', "}"]


async def test_watching_says_what_holds_a_job(gateway: Gateway, cli: Cli) -> None:
    process = await cli.start("submit", "t", "--queue", "q", "--watch")
    job_id = await first_job(gateway)
    gateway.jobs.jobs[job_id].hold_reason = job_pb2.HOLD_REASON_NO_RUNNER
    assert process.stdout is not None
    said = ""
    async with asyncio.timeout(20):
        while "NO_RUNNER" not in said:
            said = (await process.stdout.readline()).decode()
    why = "no runner that knows t and serves queue q has a free slot"
    assert said.endswith(f" waits, NO_RUNNER: {why}\n")
    await gateway.jobs.finish(job_id)
    assert (await finished(process)).code == 0


async def test_watching_with_logs_prints_all_that_was_logged_before_the_end(
    gateway: Gateway, cli: Cli
) -> None:
    job_id = (await cli("submit", "t")).out.strip()
    gateway.jobs.lines[job_id] = [job_pb2.LogLine(sequence=n, message=f"line {n}") for n in (1, 2)]
    await gateway.jobs.finish(job_id)
    done = await cli("watch", job_id, "--logs")
    said = [line.split(" ", 1)[1] for line in done.out.splitlines()]
    assert said.index("INFO: line 1") < said.index("INFO: line 2") < said.index("SUCCEEDED")


async def test_watching_prints_json_lines_for_programs(gateway: Gateway, cli: Cli) -> None:
    process = await cli.start("--output", "json", "submit", "t", "--watch")
    await gateway.jobs.finish(await first_job(gateway), b'"done"')
    done = await finished(process)
    kinds = [event["event"] for event in done.lines]
    assert kinds == ["snapshot", *["state_changed"] * 3, "ended"]
    assert [event["revision"] for event in done.lines[1:4]] == [1, 2, 3]
    assert done.lines[-1]["job"]["result"] == "done"


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (job_pb2.JOB_STATE_SUCCEEDED, 0),
        (job_pb2.JOB_STATE_DEAD, 1),
        (job_pb2.JOB_STATE_CANCELLED, 3),
    ],
)
async def test_the_end_of_a_job_is_the_exit_code(
    gateway: Gateway, cli: Cli, state: job_pb2.JobState.ValueType, code: int
) -> None:
    job_id = (await cli("submit", "t")).out.strip()
    gateway.jobs.jobs[job_id].error.type = "ValueError"
    await gateway.jobs.move(job_id, state)
    assert (await cli("watch", job_id)).code == code
    waited = await cli("wait", job_id)
    assert waited.code == code
    assert bool(waited.err) == bool(code)
    assert (await cli("wait", job_id, "-o", "json")).lines[0]["job_id"] == job_id


async def test_waiting_that_times_out_ends_with_4(cli: Cli) -> None:
    job_id = (await cli("submit", "t")).out.strip()
    done = await cli("wait", job_id, "--timeout", "100ms")
    assert done.code == 4
    assert done.err == f"jobmesh: job {job_id} is still QUEUED after 0.1 s\n"


@pytest.mark.parametrize("command", ["get", "watch", "wait", "cancel", "retry", "attempts"])
async def test_a_job_that_does_not_exist_ends_with_2(cli: Cli, command: str) -> None:
    job_id = new_id()
    done = await cli(command, job_id)
    assert done.code == 2
    assert f"no such job: {job_id}" in done.err


async def test_an_interrupt_leaves_the_job_alone_and_says_how_to_go_on(
    gateway: Gateway, cli: Cli
) -> None:
    process = await cli.start("submit", "t", "--watch", "--address", gateway.address)
    job_id = await first_job(gateway)
    await until(lambda: gateway.jobs.watches, describe="the watch")
    process.send_signal(signal.SIGINT)
    done = await finished(process)
    assert done.code == 130
    assert done.err.strip().endswith(f"jobmesh watch {job_id} --address {gateway.address}")
    assert gateway.jobs.jobs[job_id].state == job_pb2.JOB_STATE_QUEUED


async def test_a_person_sees_a_bar_that_gives_the_terminal_back(gateway: Gateway, cli: Cli) -> None:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "submit", "t", "--watch", stdin=theirs, stdout=theirs, stderr=theirs,
        env=cli.environment | {"TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(theirs)
    os.set_blocking(ours, False)
    seen = bytearray()

    def shown(text: bytes) -> bool:
        with contextlib.suppress(OSError):  # nothing yet, or the program has closed its side
            seen.extend(os.read(ours, 65_536))
        return text in seen

    job_id = await first_job(gateway)
    await until(lambda: gateway.jobs.watches, describe="the watch")
    await gateway.jobs.finish(job_id, b'"done"')
    await until(lambda: shown(b'result: "done"'), 20, lambda: seen)
    await until(lambda: shown(b"\x1b[?25h"), describe="the cursor is back")
    async with asyncio.timeout(TIMEOUT):
        assert await process.wait() == 0
    os.close(ours)
    assert "━".encode() in seen


async def test_jobs_are_listed_and_shown(gateway: Gateway, cli: Cli) -> None:
    assert (await cli("list")).err == "no jobs\n"
    ids = [(await cli("submit", "t", "-a", f"n={n}")).out.strip() for n in range(2)]
    await gateway.jobs.finish(ids[1], b'{"rows":3}')
    table = (await cli("list")).out.splitlines()
    assert table[0].split() == ["ID", "TYPE", "QUEUE", "STATE", "ATTEMPT", "AGE", "PROGRESS", "WHY"]
    assert [line.split()[0] for line in table[1:]] == ids[::-1]
    assert [job["job_id"] for job in (await cli("list", "-o", "json", "-n", "1")).lines] == ids[1:]
    sheet = (await cli("get", ids[1])).out
    assert "state      SUCCEEDED (COMPLETED)" in sheet
    assert '"rows": 3' in sheet
    (job,) = (await cli("get", ids[1], "-o", "json")).lines
    assert job["result"] == {"rows": 3}
    assert job["spec"]["payload"] == {"n": 1}


async def test_jobs_are_cancelled_and_retried_one_by_one(gateway: Gateway, cli: Cli) -> None:
    ids = [(await cli("submit", "t")).out.strip() for _ in range(2)]
    done = await cli("cancel", ids[0], new_id(), ids[1], "--reason", "not needed")
    assert done.code == 2
    assert done.out.splitlines() == [f"{job_id} CANCELLED" for job_id in ids]
    assert "no such job" in done.err
    assert gateway.jobs.jobs[ids[0]].cancel_reason == "not needed"
    assert (await cli("retry", ids[0])).out == f"{ids[0]} QUEUED\n"
    again = await cli("retry", ids[0])
    assert (again.code, again.out) == (2, "")


async def test_a_log_is_printed_without_what_would_control_the_terminal(
    gateway: Gateway, cli: Cli
) -> None:
    job_id = (await cli("submit", "t")).out.strip()
    line = job_pb2.LogLine(sequence=1, attempt=1, message="a\x1b[2Jb")
    gateway.jobs.lines[job_id] = [line]
    assert (await cli("logs", job_id)).out.endswith("[1] INFO    a\\x1b[2Jb\n")
    assert (await cli("logs", job_id, "-o", "json")).lines == [
        {"sequence": 1, "attempt": 1, "message": "a\x1b[2Jb"}
    ]


async def test_queues_are_changed_paused_and_resumed(gateway: Gateway, cli: Cli) -> None:
    assert "no queues yet" in (await cli("queues", "list")).err
    changed = await cli(
        "queues", "update", "q", "--max-running", "3", "--default-timeout", "90", "--no-intake"
    )
    assert changed.code == 0
    assert "max running      3" in changed.out
    assert gateway.queues.masks == [["max_running", "default_timeout", "intake_paused"]]
    paused = await cli("queues", "pause", "q", "--note", "deploy", "-o", "json")
    assert paused.lines[0]["dispatch_paused"] is True
    assert "dispatch, intake (deploy)" in (await cli("queues", "list")).out
    assert (await cli("queues", "--output", "json", "resume", "q")).lines[0]["name"] == "q"
    assert (await cli("queues", "get", "absent")).code == 2


async def test_info_asks_every_gateway(gateway: Gateway, cli: Cli) -> None:
    both = f"{gateway.address},127.0.0.1:1"
    done = await cli("info", "--address", both, "-o", "json")
    assert done.code == 0
    assert [answer["status"] for answer in done.lines] == ["SERVING", "UNREACHABLE"]
    assert done.lines[0]["version"] == jobmesh.__version__
    table = (await cli("info")).out.splitlines()
    assert table[0].startswith("client  jobmesh ")
    assert table[2].split()[:2] == [gateway.address, "SERVING"]
