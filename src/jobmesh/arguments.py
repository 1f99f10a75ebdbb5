"""A handler's arguments, decoded and checked by its annotations.

The payload is a JSON object of arguments by name. An unknown, missing or mistyped one is an
:class:`InvalidArguments` that names the field: no retry would mend it.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from jobmesh import codec
from jobmesh.context import ContextBase, SyncJobContext

_PATH = re.compile(r" - at `\$\.?([^`]*)`$")
_NAMED = re.compile(r"(?:missing required|contains unknown) field `([^`]*)`")
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class InvalidArguments(ValueError):
    """The arguments do not fit the handler.

    :ivar field: the path of the one that is wrong, e.g. ``rows`` or ``options.depth``; empty if
        the payload as a whole is.
    """

    def __init__(self, field: str, why: str) -> None:
        self.field = field
        self.why = why
        super().__init__(f"{field}: {why}" if field else why)


class BadSignature(TypeError):
    """A function that cannot be a handler."""


class Arguments:
    """What a handler takes: its parameters without the context.

    :raises BadSignature: a parameter cannot be passed by name, or an annotation not be resolved or
        not be decoded from JSON.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        parameters = inspect.signature(function).parameters
        hints = _hints(function)
        self.context_name = _context_name(function, parameters, hints)
        self._others = Any
        self._takes_others = False
        fields: list[Any] = []
        for name, parameter in parameters.items():
            if name == self.context_name:
                continue
            hint = hints.get(name, Any)
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                self._takes_others, self._others = True, hint
            elif parameter.kind in _BY_NAME:
                fields.append(_field(parameter, hint))
            else:
                raise BadSignature(f"{_name(function)}: {parameter} cannot be passed by name")
        self.names = tuple(field[0] for field in fields)
        self._has_defaults = any(len(field) == 3 for field in fields)
        self._struct, self._decoder = _build(function, fields)

    def decode(self, data: bytes) -> dict[str, Any]:
        """The arguments by name; those left out are absent.

        :raises InvalidArguments: they do not fit.
        """
        try:
            if self._takes_others:
                return self._decode_with_others(data)
            found = msgspec.structs.asdict(self._decoder.decode(data))
        except msgspec.ValidationError as error:
            raise _explain(error) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidArguments("", f"the payload is not JSON: {error}") from None
        except RecursionError:
            raise InvalidArguments("", "the payload is nested too deeply") from None
        return _without_unset(found) if self._has_defaults else found

    def encode(self, arguments: Mapping[str, object]) -> bytes:
        """The arguments as a payload, checked as the handler's runner will check them.

        :raises InvalidArguments: they do not fit.
        :raises jobmesh.codec.NotSerializable: one has no JSON form.
        """
        data = codec.encode(dict(arguments), "arguments")
        self.decode(data)
        return data

    def _decode_with_others(self, data: bytes) -> dict[str, Any]:
        everything = msgspec.json.decode(data, type=dict[str, Any])
        known = {name: everything.pop(name) for name in self.names if name in everything}
        struct: Any = msgspec.convert(known, self._struct, dec_hook=codec.decode_foreign)
        found = msgspec.structs.asdict(struct)
        others = {
            name: _convert_other(name, value, self._others) for name, value in everything.items()
        }
        return _without_unset(found) | others


def _without_unset(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value is not msgspec.UNSET}


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise BadSignature(
            f"{_name(function)}: an annotation cannot be resolved ({error}); what it names must be "
            "importable at run time from the handler's module, not only under TYPE_CHECKING"
        ) from error


def _context_name(
    function: Callable[..., Any],
    parameters: Mapping[str, inspect.Parameter],
    hints: Mapping[str, Any],
) -> str | None:
    """The parameter annotated as a context, or a first one called ``job`` without annotation."""
    marked = [name for name in parameters if _is_context(hints.get(name))]
    if len(marked) > 1:
        raise BadSignature(f"{_name(function)}: takes more than one context: {', '.join(marked)}")
    if marked and hints[marked[0]] is SyncJobContext and inspect.iscoroutinefunction(function):
        raise BadSignature(f"{_name(function)}: an async handler gets a JobContext")
    if marked:
        return marked[0]
    first = next(iter(parameters), None)
    return first if first == "job" and first not in hints else None


def _is_context(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, ContextBase)


def _field(parameter: inspect.Parameter, hint: Any) -> Any:
    if parameter.default is inspect.Parameter.empty:
        return (parameter.name, hint)
    # Not the default itself, which may be mutable or of another type: the function has it.
    return (parameter.name, hint, msgspec.UNSET)


def _build(function: Callable[..., Any], fields: list[Any]) -> tuple[type, Any]:
    try:
        struct: type = msgspec.defstruct(
            "Arguments", fields, kw_only=True, forbid_unknown_fields=True
        )
        return struct, msgspec.json.Decoder(struct, dec_hook=codec.decode_foreign)
    except Exception as error:
        raise BadSignature(f"{_name(function)}: {error}") from error


def _convert_other(name: str, value: object, hint: Any) -> Any:
    try:
        return msgspec.convert(value, hint, dec_hook=codec.decode_foreign)
    except msgspec.ValidationError as error:
        found = _explain(error)
        raise InvalidArguments(_join(name, found.field), found.why) from None


def _explain(error: msgspec.ValidationError) -> InvalidArguments:
    """The message of msgspec, taken apart into the field's path and what is wrong with it."""
    where, why = "", str(error)
    # More than one if a model that validates itself said where within it: the outermost is last.
    while path := _PATH.search(why):
        where, why = _join(where, path[1]), why[: path.start()]
    named = _NAMED.search(why)
    if named is None:
        return InvalidArguments(where, why.replace("`", ""))
    missing = why[named.start() :].startswith("missing")
    return InvalidArguments(
        _join(where, named[1]), "is required" if missing else "there is no such argument"
    )


def _join(path: str, name: str) -> str:
    if not path or not name:
        return path or name
    return path + name if name.startswith("[") else f"{path}.{name}"


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
