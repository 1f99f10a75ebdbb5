"""What the real program prints of characters that a locale lacks, or that control a terminal."""

from __future__ import annotations

import pytest

from jobmesh.v1 import job_pb2
from tests.integration.client.conftest import Gateway
from tests.integration.client.test_cli import Cli, finished, first_job


@pytest.fixture
def cli(gateway: Gateway) -> Cli:
    return Cli(gateway.address)


@pytest.mark.parametrize("form", ["table", "json"])
async def test_a_result_is_printed_also_where_the_locale_has_no_such_character(
    gateway: Gateway, cli: Cli, form: str
) -> None:
    job_id = (await cli("submit", "t")).out.strip()
    await gateway.jobs.finish(job_id, '"größe 日本 😀"'.encode())
    cli.environment["PYTHONIOENCODING"] = "latin-1"
    done = await finished(await cli.start("wait", job_id, "-o", form))
    assert (done.code, done.err) == (0, "")
    (shown,) = done.lines
    assert (shown if form == "table" else shown["result"]) == "größe 日本 😀"


async def test_a_log_is_printed_also_where_the_locale_has_no_such_character(
    gateway: Gateway, cli: Cli
) -> None:
    job_id = (await cli("submit", "t")).out.strip()
    gateway.jobs.lines[job_id] = [job_pb2.LogLine(sequence=1, attempt=1, message="日本")]
    cli.environment["PYTHONIOENCODING"] = "latin-1"
    done = await finished(await cli.start("logs", job_id))
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("INFO    \\u65e5\\u672c\n")


async def test_what_a_result_holds_controls_no_terminal(gateway: Gateway, cli: Cli) -> None:
    process = await cli.start("submit", "t", "--watch")
    job_id = await first_job(gateway)
    await gateway.jobs.finish(job_id, '"\x9b2J\u202e"'.encode())
    assert (await finished(process)).out.endswith('result: "\\u009b2J\\u202e"\n')
    assert (await cli("wait", job_id)).out == '"\\u009b2J\\u202e"\n'
    assert "\x9b" not in (await cli("get", job_id, "-o", "json")).out
