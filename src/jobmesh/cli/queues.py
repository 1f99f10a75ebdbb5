"""``jobmesh queues …``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jobmesh.cli.connection import calls_mesh, connection_options, wants_json
from jobmesh.cli.values import DURATION, INT64

if TYPE_CHECKING:
    from jobmesh.client import Client, QueueInfo


@click.group()
@connection_options
def queues() -> None:
    """Show, limit, pause and resume queues."""


@queues.command("list")
@connection_options
@calls_mesh
async def list_(mesh: Client) -> None:
    """List all queues, with their jobs by state."""
    from jobmesh.cli.queue_table import print_queues

    print_queues([queue async for queue in mesh.queues.list()])


@queues.command()
@click.argument("name")
@connection_options
@calls_mesh
async def get(mesh: Client, name: str) -> None:
    """Show a queue: its settings, and how it is doing."""
    _print(await mesh.queues.get(name))


@queues.command()
@click.argument("name")
@click.option(
    "--max-running",
    type=INT64,
    metavar="N",
    help="How many of its jobs may run at once over the whole mesh; 0 for no limit.",
)
@click.option(
    "--max-depth",
    type=INT64,
    metavar="N",
    help="How many jobs may wait in it; 0 for no limit.",
)
@click.option(
    "--default-timeout",
    type=DURATION,
    metavar="DURATION",
    help="For jobs that bring none; 0 for none.",
)
@click.option("--default-max-attempts", type=int, metavar="N", help="For jobs that bring none.")
@click.option("--intake/--no-intake", default=None, help="Take submissions, or refuse them.")
@connection_options
@calls_mesh
async def update(
    mesh: Client,
    name: str,
    default_timeout: float | None,
    default_max_attempts: int | None,
    intake: bool | None,
    **limits: int | None,
) -> None:
    """Change settings of a queue, and make it if it is new. What is not given stays."""
    settings: dict[str, Any] = {key: value for key, value in limits.items() if value is not None}
    if default_timeout is not None:
        settings["default_timeout"] = default_timeout or None
    if default_max_attempts is not None:
        settings["default_retry"] = _retry(default_max_attempts)
    if intake is not None:
        settings["intake_paused"] = not intake
    if not settings:
        raise click.UsageError("nothing to change: give at least one setting")
    _print(await mesh.queues.update(name, **settings))


@queues.command()
@click.argument("name")
@click.option("--note", default="", metavar="TEXT", help="Why, for whoever looks at it later.")
@connection_options
@calls_mesh
async def pause(mesh: Client, name: str, note: str) -> None:
    """Start none of a queue's jobs until it is resumed; what runs goes on."""
    _print(await mesh.queues.pause(name, note))


@queues.command()
@click.argument("name")
@connection_options
@calls_mesh
async def resume(mesh: Client, name: str) -> None:
    """Start a queue's jobs again, the oldest first."""
    _print(await mesh.queues.resume(name))


def _retry(max_attempts: int) -> Any:
    from jobmesh.retry import InvalidRetry, Retry

    try:
        return Retry(max_attempts=max_attempts)
    except InvalidRetry as error:
        raise click.UsageError(f"--default-max-attempts: {error}") from None


def _print(queue: QueueInfo) -> None:
    from jobmesh.cli.json_form import json_form
    from jobmesh.cli.output import print_json
    from jobmesh.cli.queue_table import print_queue

    if wants_json():
        print_json(json_form(queue.proto))
    else:
        print_queue(queue)
