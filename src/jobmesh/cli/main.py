"""The entry point: parses, runs, and turns every outcome into an exit code."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from jobmesh.cli import exits, interrupt
from jobmesh.cli.commands import LazyGroup
from jobmesh.cli.connection import connection_options
from jobmesh.cli.problem import explain

PROGRAM = "jobmesh"
COMPLETE = "_JOBMESH_COMPLETE"


def _show_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        import jobmesh

        click.echo(f"jobmesh {jobmesh.__version__}")
        context.exit()


@click.group(PROGRAM, cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version,
    help="Show the version and exit.",
)  # fmt: skip
@connection_options
def cli() -> None:
    """Durable background jobs.

    `jobmesh dev` runs a whole mesh here; the other commands talk to a gateway.

    Exit codes: 0 done, 1 the job failed, 2 the call failed, 3 the job was cancelled, 4 waiting
    timed out, 64 a wrong command line, 70 a defect of jobmesh, 130 interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Also where the locale has no such character: what was done has to be told.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    try:
        code = _invoke(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.UsageError as error:
        error.show()
        return exits.WRONG_COMMAND_LINE
    except click.ClickException as error:
        error.show()
        return exits.CALL_FAILED
    except (click.Abort, KeyboardInterrupt):
        return interrupt.leave()
    except BrokenPipeError:
        # Whoever read our output has seen enough, as in `jobmesh list | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.OK
    except Exception as error:
        if (problem := explain(error)) is None:
            traceback.print_exception(error)
            return exits.DEFECT
        click.echo(problem, err=True)
        return exits.CALL_FAILED
    return code if isinstance(code, int) else exits.OK


def _invoke(arguments: list[str]) -> object:
    # Not click's own main(), which would decide on exit codes itself.
    if instruction := os.environ.get(COMPLETE):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(cli, {}, PROGRAM, COMPLETE, instruction))
    with cli.make_context(PROGRAM, arguments) as context:
        return cli.invoke(context)


if __name__ == "__main__":
    main()
