"""``jobmesh cluster``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jobmesh.cli import exits
from jobmesh.cli.connection import calls_mesh, connection_options

if TYPE_CHECKING:
    from jobmesh.client import Client
    from jobmesh.client.cluster import ClusterInfo


@click.command()
@connection_options
@calls_mesh
async def cluster(mesh: Client) -> int:
    """Show who leads, the attached runners and the limits; fails if part of the mesh is down."""
    from jobmesh.cli.connection import wants_json
    from jobmesh.cli.json_form import json_form
    from jobmesh.cli.output import print_json, print_sheet

    info = await mesh.cluster()
    if wants_json():
        print_json(json_form(info.proto))
    else:
        print_sheet(_sheet(info))
    return exits.CALL_FAILED if info.unreachable else exits.OK


def _sheet(info: ClusterInfo) -> list[tuple[str, object]]:
    runners = [f"{g.runners} with {g.slots} slots (jobmesh {g.version})" for g in info.runners]
    leader = f"{info.leader_id}, epoch {info.epoch}" if info.leader_id else "none"
    return [
        ("gateway", f"jobmesh {info.version}"),
        ("leader", leader),
        ("runners", ", ".join(runners) or "none"),
        ("dispatchers", f"{info.dispatchers} with runners"),
        ("payload limit", f"{info.payload_limit} bytes"),
        ("batch limit", f"{info.batch_jobs_limit} jobs, {info.batch_limit} bytes"),
        ("unreachable", ", ".join(info.unreachable)),
    ]
