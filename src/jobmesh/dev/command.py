"""The command `jobmesh dev`."""

from __future__ import annotations

import sys
from typing import Any

import click

from jobmesh.dev.directory import DataDirectory
from jobmesh.dev.errors import DevError

EXIT_FAILED = 2


@click.group("dev", invoke_without_command=True)
@click.option("--app", multiple=True, metavar="MODULE:APP", help="What runners serve; repeatable.")
@click.option("--data", metavar="DIR", help="Directory of all data and logs.  [.jobmesh]")
@click.option("--port", type=int, help="Port of the gateway; 0 for any free one.  [7480]")
@click.option("--gateways", type=int, metavar="N", help="How many gateways to run.  [1]")
@click.option("--dispatchers", type=int, metavar="N", help="How many dispatchers to run.  [1]")
@click.option("--schedulers", type=int, metavar="N", help="How many schedulers to run.  [1]")
@click.option("--runners", type=int, metavar="N", help="How many runners to run.  [1]")
@click.option("--ready-file", metavar="PATH", help="Put addresses and process ids here as JSON.")
@click.option("--detach", is_flag=True, help="Return once it serves; `jobmesh dev stop` stops it.")
@click.option("--detached", is_flag=True, hidden=True)
@click.pass_context
def dev(context: click.Context, /, detach: bool, detached: bool, **flags: Any) -> None:
    """Run the whole mesh on this machine, PostgreSQL and NATS included.

    Each service runs as processes of its own, started again when they end; all data and logs lie in
    one directory. Without --app the built-in samples are served. Ctrl-C stops everything.
    """
    context.obj = flags
    if context.invoked_subcommand is not None:
        return
    try:
        _start(flags, detach, detached)
    except DevError as error:
        _fail(error)


@dev.command("stop")
@click.option("--data", metavar="DIR", help="Directory it was started with.  [.jobmesh]")
@click.option("--kill", is_flag=True, help="Do not wait for running jobs.")
@click.pass_context
def stop(context: click.Context, /, data: str | None, kill: bool) -> None:
    """Stop a mesh that runs in a directory, whoever started it."""
    from jobmesh.dev.detach import stop_running

    try:
        options = _options({"data": data or context.obj.get("data")})
        stopped = stop_running(DataDirectory(options.directory), kill)
    except DevError as error:
        _fail(error)
    click.echo("stopped" if stopped else f"no mesh runs in {options.directory}")


def _start(flags: dict[str, Any], detach: bool, detached: bool) -> None:
    options = _options(flags)
    if detach:
        _start_detached(options, _as_arguments(flags))
        return
    from jobmesh.dev.run import run_dev

    run_dev(options, detached=detached)


def _start_detached(options: Any, arguments: list[str]) -> None:
    from jobmesh.dev.banner import banner
    from jobmesh.dev.detach import start_detached

    content = start_detached(DataDirectory(options.directory), arguments)
    click.echo(banner(content, options, detached=True))


def _options(flags: dict[str, Any]) -> Any:
    from jobmesh.dev.options import DevOptions
    from jobmesh.server.config import ConfigError, load

    try:
        return load(DevOptions, {**flags, "app": flags.get("app") or None}, component="dev")
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


def _as_arguments(flags: dict[str, Any]) -> list[str]:
    """The flags as they were typed."""
    arguments: list[str] = []
    for name, value in flags.items():
        values = value if isinstance(value, tuple) else () if value is None else (value,)
        for each in values:
            arguments += ["--" + name.replace("_", "-"), str(each)]
    return arguments


def _fail(error: DevError) -> Any:
    click.echo(f"jobmesh dev: {error}", err=True)
    sys.exit(EXIT_FAILED)
