"""``jobmesh gateway``, ``dispatcher``, ``runner`` and ``scheduler``: one process of a service."""

from __future__ import annotations

import functools
from typing import Any

import click

from jobmesh.cli.extras import import_from_extra
from jobmesh.cli.settings_options import load_settings, options_of, told_as_usage

_WHAT = {
    "gateway": "Serves the public API and sends calls on to dispatchers.",
    "dispatcher": "Keeps jobs in PostgreSQL, and hands them to runners.",
    "runner": "Executes the handlers of an application: --app MODULE:APP.",
    "scheduler": "Queues jobs when their time comes; one of several leads.",
}


def _service(name: str) -> click.Command:
    config = getattr(import_from_extra(f"jobmesh_{name}.config", "server"), f"{name.title()}Config")

    def start(**flags: Any) -> int:
        main = import_from_extra(f"jobmesh_{name}.main", "server")
        settings = load_settings(config, name, flags)
        with told_as_usage():
            code: int = main.run(settings)
        return code

    return click.Command(
        name,
        callback=start,
        params=options_of(config),
        help=f"Run a {name}. {_WHAT[name]}\n\nSettings come from these options, then the "
        f"environment, then [{name}] in jobmesh.toml. SIGTERM stops it without an error for "
        "callers.",
    )


# Not commands but makers of them: the settings of a service are read when it is asked for.
gateway = functools.partial(_service, "gateway")
dispatcher = functools.partial(_service, "dispatcher")
runner = functools.partial(_service, "runner")
scheduler = functools.partial(_service, "scheduler")
