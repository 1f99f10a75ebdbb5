"""``jobmesh submit``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobmesh.cli.connection import calls_mesh, connection_options, wants_json
from jobmesh.cli.values import DURATION, PAIR, TIME, json_object, typed_value

if TYPE_CHECKING:
    from jobmesh.client import Client, JobHandle


@click.command()
@click.argument("type_name", metavar="TYPE")
@click.argument("json_text", metavar="[JSON]", required=False)
@click.option(
    "-a",
    "--arg",
    "pairs",
    type=PAIR,
    multiple=True,
    metavar="NAME=VALUE",
    help="One argument; its value is JSON, or else text. Repeatable.",
)
@click.option(
    "-f",
    "--file",
    "file",
    type=click.File("r", encoding="utf-8"),
    metavar="PATH",
    help="Read the arguments from a file of JSON; - is the standard input.",
)
@click.option("-w", "--watch", is_flag=True, help="Follow the job until it ends.")
@click.option("--logs", is_flag=True, help="With --watch: print what the handler logs, too.")
@click.option("-q", "--queue", metavar="NAME", help="Queue.  [default]")
@click.option("-p", "--priority", type=click.IntRange(0, 9), help="9 first.  [4]")
@click.option("--delay", type=DURATION, metavar="DURATION", help="Ready so long from now.")
@click.option("--run-at", type=TIME, metavar="TIME", help="Ready at this time.")
@click.option(
    "--timeout", type=DURATION, metavar="DURATION", help="The longest that one attempt may run."
)
@click.option(
    "--heartbeat-timeout",
    type=DURATION,
    metavar="DURATION",
    help="The longest silence of a handler that must report.",
)
@click.option("--deadline", type=TIME, metavar="TIME", help="When the whole job must have ended.")
@click.option(
    "--expires-after",
    type=DURATION,
    metavar="DURATION",
    help="Cancel it if it has not started so long after it became ready.",
)
@click.option(
    "--max-attempts",
    type=int,
    metavar="N",
    help="How many attempts may fail.  [the queue's, else 5]",
)
@click.option(
    "-l",
    "--label",
    "labels",
    type=PAIR,
    multiple=True,
    metavar="NAME=VALUE",
    help="A label to find it by. Repeatable.",
)
@click.option("--request-id", metavar="ID", help="The same id is the same job, however often.")
@connection_options
@calls_mesh
async def submit(
    mesh: Client,
    type_name: str,
    json_text: str | None,
    pairs: tuple[tuple[str, str], ...],
    file: Any,
    watch: bool,
    logs: bool,
    **options: Any,
) -> int | None:
    """Submit a job of a TYPE with the arguments in JSON, and print its id.

    \b
    jobmesh submit reports.generate '{"month": "2026-10"}' --watch
    jobmesh submit reports.generate -a month=2026-10 -a rows=500 --delay 5m

    The job is durable once its id is printed.
    """  # noqa: D301 (click's mark for lines to be kept as they are)
    arguments = _arguments(json_text, pairs, file)
    job = await mesh.with_options(**_options(**options)).submit(type_name, **arguments)
    if not watch:
        _print_id(job)
        return None
    from jobmesh.cli.follow import follow

    return await follow(job, logs=logs)


def _arguments(
    json_text: str | None, pairs: tuple[tuple[str, str], ...], file: Any
) -> dict[str, Any]:
    """What all three ways of giving arguments say together; the more special one wins."""
    if json_text is not None and file is not None:
        raise click.UsageError("give the arguments either as JSON or by --file, not both")
    arguments: dict[str, Any] = {}
    if file is not None:
        name = "standard input" if file.name == "<stdin>" else str(Path(file.name))
        arguments = json_object(_read(file, name), name)
    elif json_text is not None:
        arguments = json_object(json_text, "JSON")
    return arguments | {name: typed_value(text) for name, text in pairs}


def _read(file: Any, name: str) -> str:
    try:
        return str(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{name}: cannot be read: {error}") from None


def _options(
    labels: tuple[tuple[str, str], ...],
    max_attempts: int | None,
    delay: float | None,
    run_at: datetime | None,
    **options: Any,
) -> dict[str, Any]:
    from jobmesh.retry import InvalidRetry, Retry

    if delay is not None and run_at is not None:
        raise click.UsageError("give either --delay or --run-at, not both")
    if max_attempts is not None:
        try:
            options["retry"] = Retry(max_attempts=max_attempts)
        except InvalidRetry as error:
            raise click.UsageError(f"--max-attempts: {error}") from None
    start = {"delay": delay} if delay is not None else {"run_at": run_at} if run_at else {}
    return {**options, **start, "labels": dict(labels)}


def _print_id(job: JobHandle) -> None:
    if wants_json():
        from jobmesh.cli.output import print_json

        print_json({"job_id": job.id, "created": job.created})
        return
    click.echo(job.id)
    if not job.created:
        click.echo("(this request id had made it before)", err=True)
