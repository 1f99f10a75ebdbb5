"""Settings: a frozen dataclass per component, filled from flags, environment, file and defaults.

Each field is declared with :func:`setting`. The first source that has a value wins, in the order
flags, environment (``JOBMESH_<FIELD>``), the component's table of ``jobmesh.toml``, the file's top
level, default. What a source leaves out (an absent key, ``None``, an empty string) overrides
nothing. Everything wrong is reported at once, naming the setting and where the value came from.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

S = TypeVar("S")

ENV_PREFIX = "JOBMESH_"
CONFIG_FILE = "jobmesh.toml"
_META = "jobmesh"
_MISSING = dataclasses.MISSING


class ConfigError(ValueError):
    """Settings that cannot be used; ``problems`` has a line for each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


@dataclasses.dataclass(frozen=True)
class SettingInfo:
    """What ``--help`` says about one setting."""

    name: str
    env: str
    help: str
    type: Any
    default: Any  # dataclasses.MISSING where the setting is required
    required: bool
    secret: bool
    minimum: float | None
    maximum: float | None

    @property
    def flag(self) -> str:
        """The name as a command-line option."""
        return "--" + self.name.replace("_", "-")

    @property
    def shown_default(self) -> str:
        """The default as people read it; empty where there is none. None is a secret."""
        if self.required or self.default is None:
            return ""
        if isinstance(self.default, tuple | list):
            return ",".join(map(str, self.default))
        return str(self.default)


def setting(
    default: Any = _MISSING,
    *,
    help: str = "",  # noqa: A002 - as in click and argparse
    secret: bool = False,
    env: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    check: Callable[[Any], str | None] | None = None,
) -> Any:
    """Declare a field of a settings dataclass.

    - ``default``: its value when no source has one; without it the setting is required.
    - ``secret``: never shown by ``repr`` or :func:`describe`; may also be read from the file that
      ``JOBMESH_<FIELD>_FILE`` names.
    - ``env``: a variable's name instead of ``JOBMESH_<FIELD>``.
    - ``minimum``, ``maximum``: inclusive bounds of a number.
    - ``check``: returns what is wrong with a value (without repeating it), or nothing.
    """
    meta = {
        "help": help,
        "secret": secret,
        "env": env,
        "minimum": minimum,
        "maximum": maximum,
        "check": check,
    }
    return dataclasses.field(default=default, repr=not secret, metadata={_META: meta})


def settings_of(cls: type[Any]) -> list[SettingInfo]:
    """The settings of a component, in order, for ``--help``."""
    hints = typing.get_type_hints(cls)
    return [_info(field, hints[field.name]) for field in dataclasses.fields(cls)]


def load(
    cls: type[S],
    flags: Mapping[str, object | None] | None = None,
    *,
    component: str = "",
    env: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> S:
    """An instance of the settings dataclass, from all sources.

    - ``flags``: values by field name, ``None`` where the flag was not given; others are ignored.
    - ``component``: the table of the file that is for this component, e.g. ``dispatcher``.
    - ``env``: instead of ``os.environ``.
    - ``file``: instead of ``$JOBMESH_CONFIG`` or ``./jobmesh.toml``; only the latter may be absent.

    It raises :class:`ConfigError`, which names every unusable setting and its source.
    """
    env = os.environ if env is None else env
    infos = settings_of(cls)
    path, document = _read_file(file, env)
    problems = list(_unknown_keys(infos, document, component, path))
    checks = {f.name: _meta(f).get("check") for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    values: dict[str, object] = {}
    for info in infos:
        try:
            found = _find(info, flags or {}, env, document, component, path)
            if found is not None:
                values[info.name] = _convert(info, found[0], found[1], checks[info.name])
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    try:
        return cls(**values)
    except ValueError as error:  # a __post_init__ that compares settings with each other
        raise ConfigError([str(error)]) from None


def describe(settings: object) -> dict[str, object]:
    """The values by name, secrets hidden: for the log at the start."""
    shown: dict[str, object] = {}
    for info in settings_of(type(settings)):
        value = getattr(settings, info.name)
        shown[info.name] = "***" if info.secret and value else value
    return shown


def _meta(field: dataclasses.Field[Any]) -> Mapping[str, Any]:
    meta: Mapping[str, Any] = field.metadata.get(_META, {})
    return meta


def _info(field: dataclasses.Field[Any], hint: Any) -> SettingInfo:
    meta = _meta(field)
    default = field.default
    if field.default_factory is not _MISSING:
        default = field.default_factory()
    return SettingInfo(
        name=field.name,
        env=meta.get("env") or ENV_PREFIX + field.name.upper(),
        help=meta.get("help", ""),
        type=hint,
        default=default,
        required=default is _MISSING,
        secret=meta.get("secret", False),
        minimum=meta.get("minimum"),
        maximum=meta.get("maximum"),
    )


def _read_file(file: Path | None, env: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    named = file or (Path(env[ENV_PREFIX + "CONFIG"]) if env.get(ENV_PREFIX + "CONFIG") else None)
    path = named or Path(CONFIG_FILE)
    try:
        return str(path), tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if named is None:
            return str(path), {}
        raise ConfigError([f"{path}: no such file"]) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError([f"{path}: cannot be read: {error}"]) from None


def _unknown_keys(
    infos: list[SettingInfo], document: dict[str, Any], component: str, path: str
) -> Iterator[str]:
    table = document.get(component, {}) if component else {}
    if not isinstance(table, dict):
        yield f"{path}: {component} must be a table"
        return
    known = {info.name for info in infos}
    for key in table:
        if key not in known:
            yield f"{path}: [{component}] has no setting {key}"


def _find(
    info: SettingInfo,
    flags: Mapping[str, object | None],
    env: Mapping[str, str],
    document: dict[str, Any],
    component: str,
    path: str,
) -> tuple[object, str] | None:
    """The value of the first source that has one, and the source's name."""
    table = document.get(component, {}) if component else {}
    sources: list[tuple[object, str]] = [
        (flags.get(info.name), info.flag),
        (env.get(info.env), info.env),
        (_secret_file(info, env), f"{info.env}_FILE"),
        (table.get(info.name) if isinstance(table, dict) else None, f"{path} [{component}]"),
        (document.get(info.name), path),
    ]
    for value, source in sources:
        if value is not None and value != "" and value != ():
            return value, source
    if info.required:
        raise ConfigError([f"{info.name} is not set: use {info.flag}, {info.env} or {path}"])
    return None


def _secret_file(info: SettingInfo, env: Mapping[str, str]) -> str | None:
    name = env.get(f"{info.env}_FILE") if info.secret else None
    if not name:
        return None
    try:
        return Path(name).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{info.name} from {info.env}_FILE: cannot be read: {error}"]) from None


def _convert(
    info: SettingInfo, value: object, source: str, check: Callable[[Any], str | None] | None
) -> object:
    if isinstance(value, str) and _is_sequence(info.type):
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        converted = msgspec.convert(value, info.type, strict=False, dec_hook=_decode_other)
    except msgspec.ValidationError as error:
        raise ConfigError([f"{info.name} from {source}: {error}"]) from None
    wrong = _out_of_bounds(info, converted) or (check(converted) if check else None)
    if wrong:
        raise ConfigError([f"{info.name} from {source}: {wrong}"])
    return converted


def _decode_other(kind: type[Any], value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"expected {kind.__name__}")


def _out_of_bounds(info: SettingInfo, value: object) -> str | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    if value != value:
        return "must be a number"
    if info.minimum is not None and value < info.minimum:
        return f"must be at least {info.minimum:g}, is {value:g}"
    if info.maximum is not None and value > info.maximum:
        return f"must be at most {info.maximum:g}, is {value:g}"
    return None


def _is_sequence(hint: Any) -> bool:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(_is_sequence(part) for part in typing.get_args(hint))
    return (typing.get_origin(hint) or hint) in (list, tuple, set, frozenset)
