"""What becomes of a job in a runner: handlers of all kinds, and how they end."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from jobmesh.dev.probe import answers_ok
from tests.integration.runner.conftest import Start
from tests.integration.runner.peer import LEASE_LOST, Link, Peer, job, result_of
from tests.integration.server.collector import collecting
from tests.support.process import ServiceProcess
from tests.support.wait import until


@pytest.fixture
async def process(peer: Peer, runner: Start) -> ServiceProcess:
    process = runner(peer, slots=4, cancel_grace_seconds=1)
    await process.start()
    return process


@pytest.fixture
async def link(peer: Peer, process: ServiceProcess) -> Link:
    return await peer.link()


async def test_a_runner_says_who_it_is(link: Link) -> None:
    hello = link.hello
    assert (hello.runner_id, hello.slots, hello.prefetch) == ("runner-1", 4, 0)
    assert len(hello.session_id) == 36
    assert {"add", "add.sync", "wait"} <= set(hello.types)
    assert list(hello.types) == sorted(hello.types)
    assert list(hello.held) == []
    assert hello.version


async def test_handlers_of_all_kinds_return(link: Link) -> None:
    jobs = [job("add", a=2**60), job("add.sync", a=1, b=2), job("thread.name"), job("add", a=1)]
    link.assign(*jobs)
    results = [result_of(await link.report_of(one)) for one in jobs]
    assert results == [2**60 + 1, 3, "handler", 2]
    assert all(report.run_seconds > 0 for report in link.reports)


async def test_a_handler_knows_its_job(link: Link) -> None:
    one = job("whoami", attempt=4, timeout=60.0)
    one.labels["a"] = "b"
    one.checkpoint.data = b'{"row": 5}'
    link.assign(one)
    found = result_of(await link.report_of(one))
    assert found == {
        "id": one.job_id,
        "type": "whoami",
        "queue": "default",
        "attempt": 4,
        "labels": {"a": "b"},
        "restored": {"row": 5},
        "year": one.create_time.ToDatetime().year,
        "deadline": True,
        "main": True,
    }


async def test_an_argument_that_does_not_fit_is_a_permanent_failure_with_its_name(
    link: Link,
) -> None:
    wrong, missing, binary = job("add", a="1"), job("add"), job("add")
    binary.payload.content_type = "image/png"
    as_value = job("add")
    as_value.payload.ClearField("data")
    as_value.payload.json.struct_value["a"] = 41
    link.assign(wrong, missing, binary, as_value)

    errors = [(await link.report_of(one)).failed.error for one in (wrong, missing, binary)]
    assert [error.message for error in errors] == [
        "a: Expected int, got str",
        "a: is required",
        "the payload is image/png; a handler takes application/json",
    ]
    assert {error.type for error in errors} == {"InvalidArguments"}
    assert not any(error.retryable for error in errors)
    assert result_of(await link.report_of(as_value)) == 42


@pytest.mark.parametrize(
    ("task", "type_", "retryable"),
    [
        ("fail", "ValueError", True),
        ("fail.permanent", "PermanentError", False),
        ("exit", "SystemExit", True),
        ("exit.sync", "KeyboardInterrupt", True),
        ("unserializable", "NotSerializable", False),
    ],
)
async def test_what_a_handler_raises_is_told_and_the_runner_lives(
    link: Link, task: str, type_: str, retryable: bool
) -> None:
    one = job(task)
    link.assign(one)
    error = (await link.report_of(one)).failed.error
    assert (error.type, error.retryable) == (type_, retryable)
    assert "Traceback" in error.traceback
    await _lives(link)


async def test_a_task_that_a_handler_left_does_not_end_the_runner(link: Link) -> None:
    one = job("exit.stray")
    link.assign(one)
    assert result_of(await link.report_of(one)) == "still here"
    await _lives(link)


async def test_a_snooze_is_one(link: Link) -> None:
    one = job("snooze")
    link.assign(one)
    assert (await link.report_of(one)).snoozed.delay.ToSeconds() == 3


async def test_a_type_that_it_does_not_know_comes_back(link: Link) -> None:
    one = job("never.heard.of")
    link.assign(one)
    assert (await link.report_of(one)).WhichOneof("outcome") == "snoozed"


async def test_no_more_run_at_once_than_there_are_slots(link: Link) -> None:
    jobs = [job("wait", seconds=0.3) for _ in range(9)]
    link.assign(*jobs)
    await until(lambda: len(link.started) == 4)
    for one in jobs:
        assert result_of(await link.report_of(one)) == "waited"
    seconds = [report.run_seconds for report in link.reports]
    assert min(seconds) > 0.29


async def test_a_job_sees_nothing_of_another_ones_context(link: Link) -> None:
    jobs = [job("context.leak") for _ in range(12)]
    link.assign(*jobs)
    assert [result_of(await link.report_of(one)) for one in jobs] == [""] * 12


async def test_a_claim_that_is_sent_twice_runs_once(link: Link) -> None:
    one = job("add", a=1)
    link.assign(one, one)
    link.assign(one)
    await link.report_of(one)
    await _lives(link)
    assert len(link.reports) == 2


@pytest.mark.parametrize("task", ["wait", "wait.sync"])
async def test_a_timeout_counts_from_the_start_and_stops_the_handler(link: Link, task: str) -> None:
    first = [job("wait", seconds=0.5) for _ in range(4)]
    late = job(task, timeout=0.3)
    link.assign(*first, late)
    failed = (await link.report_of(late)).failed
    assert failed.timed_out
    assert failed.error.message == "it ran longer than its timeout: 0.3 s"
    assert failed.error.retryable
    assert (await link.report_of(late)).run_seconds == pytest.approx(0.3, abs=0.25)
    assert [result_of(await link.report_of(one)) for one in first] == ["waited"] * 4


@pytest.mark.parametrize("task", ["stubborn", "stubborn.sync"])
async def test_a_handler_that_does_not_stop_is_left_behind_and_its_slot_used(
    link: Link, task: str
) -> None:
    jobs = [job(task, seconds=8.0, timeout=0.2) for _ in range(4)]
    link.assign(*jobs, *(after := [job("add", a=1) for _ in range(4)]))
    for one in jobs:
        report = await link.report_of(one)
        assert report.failed.timed_out
        assert report.run_seconds == pytest.approx(1.2, abs=0.5)
    assert [result_of(await link.report_of(one)) for one in after] == [2] * 4


async def test_a_cancelled_handler_is_told_and_may_clean_up(link: Link) -> None:
    one = job("clean.up")
    link.assign(one)
    await until(lambda: one.job_id in link.started)
    link.cancel(one, "by Ann")
    link.cancel(one, "by Ann")  # said again until it has reported
    report = await link.report_of(one)
    assert report.WhichOneof("outcome") == "cancelled"
    assert not report.cancelled.abandoned
    assert link.checkpoints[0].checkpoint.data == b'{"cleaned":true}'
    assert link.lines == ["cleaned up: the job was cancelled: by Ann"]


async def test_a_cancelled_thread_looks_at_its_flag(link: Link) -> None:
    one = job("wait.sync")
    link.assign(one)
    await until(lambda: link.progress)
    link.cancel(one)
    assert (await link.report_of(one)).WhichOneof("outcome") == "cancelled"
    assert link.lines == ["told: the job was cancelled"]


async def test_a_job_that_waits_is_cancelled_before_it_begins(link: Link) -> None:
    jobs = [job("wait", seconds=0.5) for _ in range(4)]
    waits = job("wait")
    link.assign(*jobs, waits)
    link.cancel(waits)
    report = await link.report_of(waits)
    assert report.WhichOneof("outcome") == "cancelled"
    assert report.run_seconds == 0
    assert waits.job_id not in link.started


async def test_a_handler_that_completes_all_the_same_has_succeeded(link: Link) -> None:
    one = job("finish.anyway")
    link.assign(one)
    await until(lambda: one.job_id in link.started)
    link.cancel(one)
    assert result_of(await link.report_of(one)) == "done all the same"


async def test_a_handler_that_ignores_its_cancellation_is_left_behind(link: Link) -> None:
    one = job("stubborn", seconds=8.0)
    link.assign(one)
    await until(lambda: one.job_id in link.started)
    link.cancel(one, grace=0.2)
    report = await link.report_of(one)
    assert report.cancelled.abandoned
    assert report.run_seconds < 2


async def test_of_a_lost_lease_nothing_is_told(link: Link) -> None:
    lost, checkpointed = job("clean.up"), job("wait.sync")
    link.assign(lost, checkpointed)
    await until(lambda: len(link.started) == 2)
    link.lose(lost)
    link.lose(checkpointed)
    after = [job("wait", seconds=0.5) for _ in range(4)]
    link.assign(*after)
    for one in after:
        assert result_of(await link.report_of(one)) == "waited"
    assert {report.job_id for report in link.reports} == {one.job_id for one in after}
    assert link.checkpoints == []


async def test_progress_is_thinned_out_and_the_last_one_arrives(link: Link) -> None:
    one = job("progress.fast", seconds=1.0)
    link.assign(one)
    report = await link.report_of(one)
    calls = result_of(report)
    said = [p.progress.message for p in link.progress]
    assert calls > 100
    numbers = [int(message.removeprefix("call ")) for message in said]
    assert numbers[0] <= 10  # at once: the latest that was there on the mesh thread's first turn
    assert numbers == sorted(set(numbers))
    assert 5 <= len(said) <= 12
    last = report.progress
    assert (last.fraction, last.message, last.current, last.total) == (1.0, "last", calls, calls)
    assert last.HasField("update_time")


async def test_log_lines_arrive_before_the_report_and_can_be_stored(link: Link) -> None:
    one = job("log")
    link.assign(one)
    await link.report_of(one)
    assert link.lines == [f"line {number}\N{REPLACEMENT CHARACTER}?" for number in range(3)]
    kinds = [message.WhichOneof("message") for message in link.received]
    assert kinds.index("logs") < kinds.index("reports")


async def test_a_log_has_an_end(link: Link) -> None:
    one = job("log", lines=10_500)
    link.assign(one)
    await link.report_of(one)
    assert len(link.lines) == 10_000
    assert link.lines[-1] == "the log is full: further lines of this attempt are left out"


@pytest.mark.parametrize("task", ["checkpoints", "checkpoints.sync"])
async def test_a_checkpoint_returns_once_it_is_durable(link: Link, task: str) -> None:
    link.rules.stores_checkpoints = False
    one = job(task, count=2)
    link.assign(one)
    await until(lambda: len(link.checkpoints) == 1)
    link.assign(probe := job("add", a=1))
    await link.report_of(probe)
    assert [c.sequence for c in link.checkpoints] == [1]  # one at a time
    link.stored(link.checkpoints[0])
    await until(lambda: len(link.checkpoints) == 2)
    link.stored(link.checkpoints[0])  # an old answer
    link.stored(link.checkpoints[1])
    assert result_of(await link.report_of(one)) == 2


async def test_a_handler_goes_on_from_its_checkpoint(link: Link) -> None:
    one = job("checkpoints", count=2, attempt=2)
    one.checkpoint.data = b'{"row": 40}'
    link.assign(one)
    assert result_of(await link.report_of(one)) == 42


async def test_a_refused_checkpoint_is_a_lost_lease(link: Link) -> None:
    link.rules.stores_checkpoints = False
    one = job("checkpoint.lost")
    link.assign(one)
    await until(lambda: link.checkpoints)
    link.stored(link.checkpoints[0], LEASE_LOST)
    await _lives(link)
    assert one.job_id not in {report.job_id for report in link.reports}


async def test_a_handler_that_blocks_its_loop_starves_no_lease(link: Link) -> None:
    """And one that never gives it back is timed out all the same."""
    blocks, timed = job("block.loop", seconds=4.0), job("wait.sync", timeout=0.5)
    link.assign(timed)
    await until(lambda: timed.job_id in link.started)
    link.assign(blocks)
    await until(lambda: blocks.job_id in link.started)
    begin = asyncio.get_running_loop().time()
    pings: list[float] = []

    def note(original: Any) -> Any:
        def obey(request: Any) -> None:
            if request.WhichOneof("message") == "ping":
                pings.append(asyncio.get_running_loop().time() - begin)
            original(request)

        return obey

    link.obey = note(link.obey)  # type: ignore[method-assign]
    assert (await link.report_of(timed)).failed.timed_out
    assert result_of(await link.report_of(blocks)) == "blocked"
    gaps = [later - earlier for earlier, later in itertools.pairwise(pings)]
    assert len(pings) > 10
    assert max(gaps) < 1.0


async def test_a_blocked_loop_takes_no_jobs_and_gives_back_what_waits(link: Link) -> None:
    link.assign(blocks := job("block.loop", seconds=5.0))
    await until(lambda: blocks.job_id in link.started)
    link.assign(waits := job("add", a=1))
    assert (await link.report_of(waits)).WhichOneof("outcome") == "interrupted"
    await until(lambda: [capacity.draining for capacity in link.all("capacity")[-1:]] == [True])
    assert result_of(await link.report_of(blocks)) == "blocked"
    await until(lambda: not link.all("capacity")[-1].draining)
    await _lives(link)


async def test_a_loop_that_will_never_turn_again_ends_the_runner(peer: Peer, runner: Start) -> None:
    process = runner(peer, slots=2, cancel_grace_seconds=1, drain_grace_seconds=1)
    await process.start()
    link = await peer.link()
    link.assign(blocks := job("block.loop", seconds=60.0, timeout=0.5))
    assert (await link.report_of(blocks)).failed.timed_out
    assert process.child is not None
    assert await asyncio.wait_for(process.child.wait(), 20) == 1
    assert link.said_bye


async def test_what_waits_behind_long_jobs_is_given_back(link: Link) -> None:
    """Many short ones were taken ahead, and then come long ones: others may be idle."""
    long = [job("wait.sync") for _ in range(4)]
    behind = [job("add", a=n) for n in range(50)]
    link.assign(*long, *behind)
    for one in behind:
        assert (await link.report_of(one)).WhichOneof("outcome") == "interrupted"
    assert not {one.job_id for one in long} & {report.job_id for report in link.reports}


async def test_memory_is_bounded(link: Link, process: ServiceProcess) -> None:
    count = 20_000
    jobs = [job("memory", n=n) for n in range(count)]
    for start in range(0, count, 1000):
        link.assign(*jobs[start : start + 1000])
        await _reports(link, start + 800)
    await _reports(link, count)
    assert _resident_bytes(process.pid) < 150 << 20


async def test_probes_and_metrics(link: Link, process: ServiceProcess) -> None:
    await process.ready()
    link.assign(one := job("add", a=1), two := job("fail"))
    await link.report_of(one)
    await link.report_of(two)
    metrics = await _get(process.http_address, "/metrics")
    assert 'jobmesh_runner_attempts_total{outcome="succeeded",type="add"} 1.0' in metrics
    assert 'jobmesh_runner_attempts_total{outcome="failed",type="fail"} 1.0' in metrics
    assert "jobmesh_runner_attached 1.0" in metrics
    assert "jobmesh_runner_slots 4.0" in metrics
    assert await answers_ok(process.http_address, "/livez")


async def _reports(link: Link, count: int) -> None:
    await until(lambda: len(link.reports) >= count, 30.0, f"{count} reports")


async def _lives(link: Link) -> None:
    link.assign(one := job("add", a=1))
    assert result_of(await link.report_of(one)) == 2


async def _get(address: str, path: str) -> str:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.decode()


def _resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * 4096


async def test_a_trace_goes_on_in_the_handler(peer: Peer, runner: Start) -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    async with collecting() as collector:
        exporter = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}"}
        process = runner(peer, beside=exporter)
        await process.start()
        link = await peer.link()
        good, bad = job("add", a=1), job("fail")
        for one in (good, bad):
            one.traceparent = f"00-{trace_id}-b7ad6b7169203331-01"
        link.assign(good, bad)
        await link.report_of(good)
        await link.report_of(bad)
        assert await process.terminate() == 0
        [run], [failed] = collector.named("run add"), collector.named("run fail")
    assert run.trace_id.hex() == failed.trace_id.hex() == trace_id
    assert run.parent_span_id.hex() == "b7ad6b7169203331"
    attributes = {a.key: a.value.string_value or a.value.int_value for a in run.attributes}
    assert attributes["jobmesh.job_id"] == good.job_id
    assert failed.status.code == 2  # error
