"""``jobmesh info``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from jobmesh.cli import exits
from jobmesh.cli.connection import asks_gateways, connection_options

if TYPE_CHECKING:
    from jobmesh.cli.gateway_health import Health
    from jobmesh.client import Client


@click.command()
@connection_options
@asks_gateways
async def info(mesh: Client) -> int:
    """Ask every gateway whether it serves; fails if none of the address does."""
    import jobmesh
    from jobmesh.cli.connection import wants_json
    from jobmesh.cli.gateway_health import ask
    from jobmesh.cli.output import Column, print_rows
    from jobmesh.cli.view_json import plain

    addresses = [address.strip() for address in mesh.address.split(",") if address.strip()]
    answers = await asyncio.gather(*(ask(address) for address in addresses))
    if not wants_json():
        click.echo(f"client  jobmesh {jobmesh.__version__}")
    columns: list[Column[Health]] = [
        Column("GATEWAY", lambda health: health.address),
        Column("HEALTH", lambda health: health.status),
        Column("ANSWERED IN", lambda health: f"{health.seconds * 1000:.1f}ms"),
        Column("VERSION", lambda health: health.version),
        Column("WHY", lambda health: health.why),
    ]
    print_rows(answers, columns, plain)
    return exits.OK if any(health.serving for health in answers) else exits.CALL_FAILED
