"""Finds the app that a runner serves, and makes sure that every task of it can be run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobmesh.app import App
from jobmesh.arguments import BadSignature
from jobmesh.declared import DeclaredSchedule, InvalidSchedule
from jobmesh.task import InvalidTask, Task

MOST_TYPES = 1000


class BadApp(Exception):
    """The app cannot be served; the text says why and what to do."""


def load_tasks(names: Sequence[str]) -> dict[str, Task[Any, Any]]:
    """The tasks of all apps, each named as ``module:app``; modules are also sought here.

    :raises BadApp: one cannot be loaded, has no tasks, or a task that cannot be run.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    together = App()
    for name in names:
        try:
            together.include(load_app(name))
        except (InvalidTask, InvalidSchedule) as error:
            raise BadApp(f"{name}: {error}") from error
    tasks = dict(together.tasks)
    if not tasks:
        raise BadApp(f"{', '.join(names)}: there are no tasks; declare one with @app.task")
    if len(tasks) > MOST_TYPES:
        raise BadApp(f"{len(tasks)} tasks are more than the {MOST_TYPES:,} that a runner may have")
    for task in tasks.values():
        _require_runnable(task)
    return tasks


def load_schedules(names: Sequence[str]) -> dict[str, list[DeclaredSchedule]]:
    """What each app, by its name, declares; empty for an app that declares nothing."""
    return {name: list(load_app(name).schedules.values()) for name in names}


def load_app(name: str) -> App:
    """The app called ``module:app``.

    :raises BadApp: the module cannot be imported, or has no such app.
    """
    module_name, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise BadApp(
            f"{name}: cannot import {module_name}: {type(error).__name__}: {error}"
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise BadApp(f"{name}: {module_name} has no {attribute}")
        found = getattr(found, part)
    if not isinstance(found, App):
        raise BadApp(f"{name} is a {type(found).__name__}, not a jobmesh.App")
    return found


def _require_runnable(task: Task[Any, Any]) -> None:
    try:
        task.arguments  # noqa: B018 - made on first use
    except BadSignature as error:
        raise BadApp(f"task {task.name}: {error}") from error
