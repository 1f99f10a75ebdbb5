"""All commands by name, in a reader's order, each loaded only when it is called."""

from __future__ import annotations

import importlib
from typing import NamedTuple

import click


class Entry(NamedTuple):
    """Where a command is made (``module:attribute``), and its line in the list of commands."""

    path: str
    help: str


SECTIONS: dict[str, dict[str, Entry]] = {
    "Jobs": {
        "submit": Entry("jobmesh.cli.submit:submit", "Submit a job."),
        "watch": Entry("jobmesh.cli.watch:watch", "Follow a job until it ends."),
        "wait": Entry("jobmesh.cli.wait:wait", "Wait until a job ends, and print its result."),
        "get": Entry("jobmesh.cli.get:get", "Show a job as it stands."),
        "list": Entry("jobmesh.cli.list:list_", "List jobs, newest first."),
        "cancel": Entry("jobmesh.cli.cancel:cancel", "Cancel jobs."),
        "retry": Entry("jobmesh.cli.retry:retry", "Queue ended jobs again."),
        "attempts": Entry("jobmesh.cli.attempts:attempts", "Show every attempt of a job."),
        "logs": Entry("jobmesh.cli.logs:logs", "Print what a job's handlers logged."),
    },
    "Mesh": {
        "queues": Entry("jobmesh.cli.queues:queues", "Show, limit, pause and resume queues."),
        "schedules": Entry(
            "jobmesh.cli.schedules:schedules", "Make, change, pause, fire and preview schedules."
        ),
        "cluster": Entry(
            "jobmesh.cli.cluster:cluster", "Show who leads, the runners and the limits."
        ),
        "info": Entry("jobmesh.cli.info:info", "Ask every gateway whether it serves."),
    },
    "Services": {
        "dev": Entry("jobmesh.cli.dev:load", "Run the whole mesh on this machine."),
        "migrate": Entry("jobmesh.cli.migrate:migrate", "Bring the database to this version."),
        "gateway": Entry("jobmesh.cli.services:gateway", "Run a gateway."),
        "dispatcher": Entry("jobmesh.cli.services:dispatcher", "Run a dispatcher."),
        "runner": Entry("jobmesh.cli.services:runner", "Run a runner, which executes handlers."),
        "scheduler": Entry("jobmesh.cli.services:scheduler", "Run a scheduler."),
    },
    "Shell": {
        "completion": Entry("jobmesh.cli.completion:completion", "Print a completion script."),
    },
}
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, context: click.Context) -> list[str]:
        """The names, in order."""
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command; one that is made by a function is made now."""
        entry = COMMANDS.get(name)
        if entry is None:
            return None
        module, _, attribute = entry.path.partition(":")
        found = getattr(importlib.import_module(module), attribute)
        command = found if isinstance(found, click.Command) else found()
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without loading any."""
        width = max(map(len, COMMANDS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                rows = [(name.ljust(width), entry.help) for name, entry in section.items()]
                formatter.write_dl(rows)
