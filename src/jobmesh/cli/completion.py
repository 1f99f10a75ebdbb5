"""``jobmesh completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script, for commands and options.

    \b
    bash  eval "$(jobmesh completion bash)"           in ~/.bashrc
    zsh   eval "$(jobmesh completion zsh)"            in ~/.zshrc
    fish  jobmesh completion fish | source            in ~/.config/fish/config.fish
    """  # noqa: D301 (click's mark for lines to be kept as they are)
    made = get_completion_class(shell)
    assert made is not None
    root = context.find_root().command
    click.echo(made(root, {}, "jobmesh", "_JOBMESH_COMPLETE").source())
