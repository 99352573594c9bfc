# SPDX-License-Identifier: Apache-2.0
"""Conversion of the dataclasses to plain JSON values and back, by annotation; a value that does not
fit is a ValueError.

Supports frozen dataclasses (generic ones included), enums, literals, tuples, dicts, optionals,
bytes. The error names the field.
"""

import base64
import collections.abc
import dataclasses
import enum
import functools
import types
import typing
from typing import Any, TypeVar

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Return a dataclass as dicts, lists, strings, numbers and None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {str(key): to_plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(entry) for entry in value]
    return value


def from_plain(shape: type[T], plain: Any) -> T:
    """Return a value of a dataclass from the output of :func:`to_plain`. Raise ValueError."""
    result: T = _read(shape, plain, shape.__name__)
    return result


def _read(annotation: Any, plain: Any, place: str) -> Any:
    if annotation is Any:
        return plain
    origin, arguments = _parts(annotation)
    if origin in (types.UnionType, typing.Union):
        return _union(arguments, plain, place)
    if origin is typing.Literal:
        return _check(plain in arguments, plain, place)
    if origin is tuple:
        _check(isinstance(plain, list), plain, place)
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            first = arguments[0]
            return tuple(
                entry if type(entry) is first else _read(first, entry, f"{place}[{index}]")
                for index, entry in enumerate(plain)
            )
        _check(len(plain) == len(arguments), plain, place)
        return tuple(
            _read(kind, entry, place) for kind, entry in zip(arguments, plain, strict=True)
        )
    if origin in (dict, collections.abc.Mapping):
        _check(isinstance(plain, dict), plain, place)
        return {key: _read(arguments[1], entry, f"{place}.{key}") for key, entry in plain.items()}
    kind = origin or annotation
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, arguments, plain, place)
    return _scalar(annotation, plain, place)


@functools.cache
def _parts(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the origin and arguments of a generic such as ``list[int]``; (None, ()) if it is not
    generic."""
    return typing.get_origin(annotation), typing.get_args(annotation)


def _union(arguments: tuple[Any, ...], plain: Any, place: str) -> Any:
    if plain is None and type(None) in arguments:
        return None
    problems = []
    for kind in arguments:
        if kind is not type(None):
            try:
                return _read(kind, plain, place)
            except ValueError as problem:
                problems.append(str(problem))
    raise ValueError("; ".join(problems))


def _dataclass(kind: Any, arguments: tuple[Any, ...], plain: Any, place: str) -> Any:
    _check(isinstance(plain, dict), plain, place)
    hints = _hints(kind)
    unknown = set(plain) - set(hints)
    if unknown:
        raise ValueError(f"{place}: unknown {', '.join(sorted(unknown))}")
    variables = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
    values = {
        name: entry
        if type(entry) is hints[name]  # most entries of a report, and nothing is to be converted
        else _read(_filled(hints[name], variables), entry, f"{place}.{name}")
        for name, entry in plain.items()
    }
    try:
        return kind(**values)
    except TypeError as problem:
        raise ValueError(f"{place}: {problem}") from None


def _filled(annotation: Any, variables: dict[Any, Any]) -> Any:
    """Return ``T | None`` with T replaced; the dataclasses use their type variables in no other
    way."""
    if not variables:
        return annotation
    if annotation in variables:
        return variables[annotation]
    origin, arguments = _parts(annotation)
    if origin in (types.UnionType, typing.Union):
        return typing.Union[tuple(variables.get(part, part) for part in arguments)]  # noqa: UP007
    return annotation


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _scalar(kind: Any, plain: Any, place: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(plain)
        except ValueError:
            raise ValueError(
                f"{place}: {plain!r} is none of {', '.join(str(item.value) for item in kind)}"
            ) from None
    if kind is bytes:
        return base64.b64decode(_check(isinstance(plain, str), plain, place))
    if kind is float:
        return float(
            _check(isinstance(plain, int | float) and not isinstance(plain, bool), plain, place)
        )
    if kind is int:
        return _check(isinstance(plain, int) and not isinstance(plain, bool), plain, place)
    return _check(isinstance(plain, kind), plain, place)


def _check(fits: bool, plain: Any, place: str) -> Any:
    if not fits:
        raise ValueError(f"{place}: {plain!r} does not fit")
    return plain
