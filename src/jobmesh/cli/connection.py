"""The options that every command has, before or after its name, and the client they make."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

if TYPE_CHECKING:
    from jobmesh.client import Client

F = TypeVar("F", bound=Callable[..., Any])
Body: TypeAlias = Callable[..., Awaitable[int | None]]

_KEY = "jobmesh.connection"
# A person waits: a mesh that is not there should be told soon.
PATIENCE_SECONDS = 5.0


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
    if value is not None and parameter.name is not None:
        _settings(context)[parameter.name] = value


def _settings(context: click.Context) -> dict[str, Any]:
    settings: dict[str, Any] = context.find_root().meta.setdefault(_KEY, {})
    return settings


_OPTIONS = (
    click.option(
        "--address", metavar="HOST:PORT", expose_value=False, callback=_keep,
        help="Gateway; several, separated by commas, share the calls."
        "  [$JOBMESH_ADDRESS, else 127.0.0.1:7480]",
    ),
    click.option(
        "--token-file", metavar="PATH", type=click.Path(dir_okay=False),
        expose_value=False, callback=_keep, help="Reserved: no mesh asks for a token yet.",
    ),
    click.option(
        "--namespace", metavar="NAME", type=click.Choice(["default"]), expose_value=False,
        callback=_keep, help="Reserved: there is one namespace, default.",
    ),
    click.option(
        "-o", "--output", type=click.Choice(["table", "json"]), expose_value=False,
        callback=_keep, help="For people, or for programs.  [table]",
    ),
)  # fmt: skip


def connection_options(command: F) -> F:
    """Add --address, --token-file, --namespace and --output; the innermost one given wins."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def wants_json() -> bool:
    """Whether --output json was given."""
    return bool(_settings(click.get_current_context()).get("output") == "json")


def mesh_options() -> str:
    """The connection's options as they were typed, to be shown in a line to run next."""
    settings = _settings(click.get_current_context())
    names = {"address": "--address", "token_file": "--token-file", "namespace": "--namespace"}
    return "".join(f" {flag} {settings[name]}" for name, flag in names.items() if name in settings)


def client() -> Client:
    """The client that the options describe; to be entered.

    Raises:
        click.UsageError: the address is malformed.
    """
    from jobmesh.channels import target_uri
    from jobmesh.cli.values import require_unicode
    from jobmesh.client import connect

    settings = _settings(click.get_current_context())
    mesh = connect(
        settings.get("address"),
        token_file=settings.get("token_file"),
        namespace=settings.get("namespace", ""),
        patience=PATIENCE_SECONDS,
    )
    require_unicode(mesh.address)
    for address in mesh.address.split(","):
        try:
            target_uri(address)
        except ValueError as error:
            raise click.UsageError(f"--address: {error}") from None
    return mesh


def calls_mesh(body: Body) -> Callable[..., int | None]:
    """Make a command of an async function that takes the client first, and returns an exit code."""
    return _command(body, silence_is_told=True)


def asks_gateways(body: Body) -> Callable[..., int | None]:
    """As :func:`calls_mesh`, of a command that says itself which gateways answer."""
    return _command(body, silence_is_told=False)


def _command(body: Body, *, silence_is_told: bool) -> Callable[..., int | None]:
    @functools.wraps(body)
    def command(*arguments: Any, **options: Any) -> int | None:
        import asyncio
        import contextlib

        from jobmesh.cli.values import require_unicode

        async def call() -> int | None:
            from jobmesh.cli.silence import told_to_people

            async with contextlib.AsyncExitStack() as stack:
                mesh = await stack.enter_async_context(client())
                if silence_is_told:
                    await stack.enter_async_context(told_to_people(mesh.address))
                return await body(mesh, *arguments, **options)

        require_unicode((*arguments, *options.values()))
        return asyncio.run(call())

    return command
