"""``jobmesh schedules …``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from jobmesh.cli.connection import calls_mesh, connection_options
from jobmesh.cli.values import DURATION, INT32, TIME, TIME_OR_AGO, json_object

if TYPE_CHECKING:
    from jobmesh.client import Client

OVERLAPS = ("allow", "skip", "buffer_one", "buffer_all", "cancel_running", "terminate_running")
_times = (
    click.option("--cron", multiple=True, metavar="EXPR", help="When it fires. Repeatable."),
    click.option("--every", type=DURATION, metavar="DURATION", help="Fires so often."),
    click.option("--exclude", multiple=True, metavar="EXPR", help="When not. Repeatable."),
    click.option("--time-zone", metavar="ZONE", help="Of --cron, as Europe/Berlin.  [UTC]"),
)
_overlap = click.option(
    "--overlap", type=click.Choice(OVERLAPS), help="While an earlier job has not ended.  [skip]"
)


@click.group()
@connection_options
def schedules() -> None:
    """Make, change, pause, fire and preview schedules."""


@schedules.command("list")
@click.option("--owner", default="", metavar="NAME", help="Only those of this owner.")
@connection_options
@calls_mesh
async def list_(mesh: Client, owner: str) -> None:
    """List all schedules."""
    from jobmesh.cli.schedule_table import print_schedules

    print_schedules([schedule async for schedule in mesh.schedules.list(owner=owner)])


@schedules.command()
@click.argument("schedule_id", metavar="ID")
@connection_options
@calls_mesh
async def get(mesh: Client, schedule_id: str) -> None:
    """Show a schedule."""
    from jobmesh.cli.schedule_table import print_schedule

    print_schedule(await mesh.schedules.get(schedule_id))


def _timed(command: Any) -> Any:
    for option in reversed(_times):
        command = option(command)
    return command


@schedules.command()
@click.argument("schedule_id", metavar="ID")
@click.argument("type_name", metavar="TYPE")
@click.argument("json_text", metavar="[JSON]", required=False)
@_timed
@_overlap
@click.option(
    "--catchup", type=click.Choice(("none", "one", "all")), help="Of what was missed.  [one]"
)
@click.option("--jitter", type=DURATION, metavar="DURATION", help="Late by a part of this.")
@click.option("-q", "--queue", metavar="NAME", help="Queue of its jobs.  [default]")
@click.option("--paused", is_flag=True, help="Fires nothing until it is resumed.")
@click.option("--pause-after-failures", type=INT32, metavar="N", help="In a row.  [never]")
@click.option("--description", metavar="TEXT", help="What it is for.")
@connection_options
@calls_mesh
async def create(
    mesh: Client,
    schedule_id: str,
    type_name: str,
    json_text: str | None,
    **settings: Any,
) -> None:
    """Make a schedule that submits jobs of a TYPE with the arguments in JSON.

    \b
    jobmesh schedules create nightly reports.generate --cron "0 2 * * *"
    """  # noqa: D301 (click's mark for lines to be kept as they are)
    from jobmesh.cli.schedule_table import print_schedule

    arguments = json_object(json_text, "JSON") if json_text else {}
    given = {name: value for name, value in settings.items() if value not in (None, ())}
    print_schedule(await mesh.schedules.create(schedule_id, type_name, arguments, **given))


@schedules.command()
@click.argument("schedule_id", metavar="ID")
@click.option("--note", default="", metavar="TEXT", help="Why, for whoever looks at it later.")
@connection_options
@calls_mesh
async def pause(mesh: Client, schedule_id: str, note: str) -> None:
    """Fire nothing until it is resumed."""
    from jobmesh.cli.schedule_table import print_schedule

    print_schedule(await mesh.schedules.pause(schedule_id, note))


@schedules.command()
@click.argument("schedule_id", metavar="ID")
@connection_options
@calls_mesh
async def resume(mesh: Client, schedule_id: str) -> None:
    """Fire again, from the next time on."""
    from jobmesh.cli.schedule_table import print_schedule

    print_schedule(await mesh.schedules.resume(schedule_id))


@schedules.command()
@click.argument("schedule_id", metavar="ID")
@connection_options
@calls_mesh
async def delete(mesh: Client, schedule_id: str) -> None:
    """Remove a schedule; its jobs go on."""
    await mesh.schedules.delete(schedule_id)


@schedules.command()
@click.argument("schedule_id", metavar="ID")
@_overlap
@connection_options
@calls_mesh
async def trigger(mesh: Client, schedule_id: str, overlap: str | None) -> None:
    """Fire now."""
    from jobmesh.cli.schedule_table import print_firings

    print_firings([await mesh.schedules.trigger(schedule_id, overlap=overlap or "")])


@schedules.command()
@click.argument("schedule_id", metavar="ID")
@click.argument("start", type=TIME_OR_AGO, metavar="FROM")
@click.argument("end", type=TIME_OR_AGO, metavar="TO")
@_overlap
@connection_options
@calls_mesh
async def backfill(
    mesh: Client, schedule_id: str, start: datetime, end: datetime, overlap: str | None
) -> None:
    """Fire the times of the past that made no job, from FROM until before TO."""
    from jobmesh.cli.schedule_table import print_firings

    print_firings(await mesh.schedules.backfill(schedule_id, start, end, overlap=overlap or ""))


@schedules.command()
@click.argument("schedule_id", metavar="[ID]", required=False)
@_timed
@click.option("-n", "--count", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--after", type=TIME, metavar="TIME", help="After this time.  [now]")
@connection_options
@calls_mesh
async def preview(
    mesh: Client,
    schedule_id: str | None,
    count: int,
    after: datetime | None,
    **times: Any,
) -> None:
    """Show when a schedule will fire, or when one with these times would."""
    from jobmesh.cli.schedule_table import print_plan
    from jobmesh.client.schedule_message import schedule_message

    given = {name: value for name, value in times.items() if value not in (None, ())}
    if bool(schedule_id) == bool(given):
        raise click.UsageError("give either the ID of a schedule or its times, as --cron")
    target = schedule_id or schedule_message("preview", "preview", **given)
    print_plan(await mesh.schedules.preview(target, count=count, after=after))


@schedules.command()
@click.argument("schedule_id", metavar="ID")
@click.option("-n", "--limit", type=click.IntRange(1), default=20, show_default=True)
@connection_options
@calls_mesh
async def firings(mesh: Client, schedule_id: str, limit: int) -> None:
    """Show what became of a schedule's times, the latest first."""
    from jobmesh.cli.schedule_table import print_firings

    print_firings([f async for f in mesh.schedules.firings(schedule_id, limit=limit)])


@schedules.command()
@click.argument("file", type=click.File("r", encoding="utf-8"), metavar="FILE")
@click.option("--prune", is_flag=True, help="Remove those of the file's owner that it lacks.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@connection_options
@calls_mesh
async def apply(mesh: Client, file: Any, prune: bool, dry_run: bool) -> None:
    """Make the schedules of a YAML file what it says; again, it changes nothing.

    \b
    owner: reports            # whose schedules these are; --prune removes no others
    schedules:
      nightly:
        type: reports.generate
        arguments: {rows: 500}
        cron: "0 2 * * *"
        time_zone: Europe/Berlin
    """  # noqa: D301 (click's mark for lines to be kept as they are)
    from jobmesh.cli.schedule_file import read_file
    from jobmesh.client.applying import OwnedByAnother, apply_schedules

    wanted = read_file(file)
    steps = apply_schedules(
        mesh.schedules, wanted.schedules, owner=wanted.owner, prune=prune, dry_run=dry_run
    )
    try:
        async for step in steps:
            click.echo(f"{step.schedule_id}: {step.action}" + (" (dry run)" if dry_run else ""))
    except OwnedByAnother as error:
        raise click.ClickException(str(error)) from None
