"""A component's settings as options of its command, each with its default and its variable."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from jobmesh.cli.values import is_unicode

if TYPE_CHECKING:
    from jobmesh.server.config import SettingInfo

S = TypeVar("S")


def options_of(config: type[Any]) -> list[click.Parameter]:
    """An option for each setting; values are texts, which the settings read themselves."""
    from jobmesh.server.config import settings_of

    return [
        click.Option([info.flag, info.name], help=_help(info), metavar=_metavar(info))
        for info in settings_of(config)
    ]


def load_settings(config: type[S], component: str, flags: dict[str, Any]) -> S:
    """The settings from flags, environment, file and defaults.

    Raises:
        click.UsageError: some cannot be used; the message has a line for each.
    """
    from jobmesh.server.config import load, settings_of

    for info in settings_of(config):
        if isinstance(value := flags.get(info.name), str) and not is_unicode(value):
            raise click.UsageError(f"{info.flag} is not Unicode")  # it may be a secret
    with told_as_usage():
        return load(config, flags, component=component)


@contextlib.contextmanager
def told_as_usage() -> Iterator[None]:
    """Settings that cannot be used, also those that a component finds itself, are the user's."""
    from jobmesh.server.config import ConfigError

    try:
        yield
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


def _help(info: SettingInfo) -> str:
    text = info.help[:1].upper() + info.help[1:]
    default = f"; default {info.shown_default}" if info.shown_default else ""
    return f"{text}.  [{info.env}{default}]"


def _metavar(info: SettingInfo) -> str:
    name = str(getattr(info.type, "__name__", info.type))
    if "bool" in name:
        return "BOOL"
    if "int" in name:
        return "N"
    if "float" in name:
        return "SECONDS" if info.name.endswith("_seconds") else "NUMBER"
    return "TEXT"
