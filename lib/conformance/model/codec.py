# SPDX-License-Identifier: Apache-2.0
"""Converts dataclasses to plain JSON values and back, by annotation; raises ValueError for a value
that does not fit.

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
from collections.abc import Callable
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
    read: Callable[[Any, str], T] = _reader(typing.cast("Any", shape))
    return read(plain, shape.__name__)


@functools.cache
def _reader(annotation: Any) -> Callable[[Any, str], Any]:
    """Return the function that reads values of a type annotation. The function receives a value and
    the value's place in the report, for error messages. Functions are cached, since a report has a
    hundred thousand values, but few different annotations."""
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if annotation is Any:
        return lambda plain, place: plain
    if origin in (types.UnionType, typing.Union):
        return functools.partial(_union, arguments)
    if origin is typing.Literal:
        return lambda plain, place: _check(plain in arguments, plain, place)
    if origin is tuple:
        readers = [_reader(kind) for kind in arguments if kind is not Ellipsis]
        return functools.partial(_tuple, arguments, readers)
    if origin in (dict, collections.abc.Mapping):
        return functools.partial(_mapping, _reader(arguments[1]))
    kind = origin or annotation
    if dataclasses.is_dataclass(kind):
        return functools.partial(_dataclass, kind, arguments)
    return functools.partial(_scalar, annotation)


def _tuple(
    kinds: tuple[Any, ...], readers: list[Callable[[Any, str], Any]], plain: Any, place: str
) -> Any:
    _check(isinstance(plain, list), plain, place)
    if Ellipsis in kinds:
        if set(map(type, plain)) <= {kinds[0]}:  # nothing is to be converted
            return tuple(plain)
        return tuple(readers[0](entry, f"{place}[{index}]") for index, entry in enumerate(plain))
    _check(len(plain) == len(kinds), plain, place)
    return tuple(read(entry, place) for read, entry in zip(readers, plain, strict=True))


def _mapping(read: Callable[[Any, str], Any], plain: Any, place: str) -> Any:
    _check(isinstance(plain, dict), plain, place)
    return {key: read(entry, f"{place}.{key}") for key, entry in plain.items()}


def _union(arguments: tuple[Any, ...], plain: Any, place: str) -> Any:
    if plain is None and type(None) in arguments:
        return None
    problems = []
    for kind in arguments:
        if kind is not type(None):
            try:
                return _reader(kind)(plain, place)
            except ValueError as problem:
                problems.append(str(problem))
    raise ValueError("; ".join(problems))


def _dataclass(kind: Any, arguments: tuple[Any, ...], plain: Any, place: str) -> Any:
    _check(isinstance(plain, dict), plain, place)
    fields = _fields(kind, arguments)
    if unknown := plain.keys() - fields.keys():
        raise ValueError(f"{place}: unknown {', '.join(sorted(unknown))}")
    values = {
        name: entry
        if type(entry) is fields[name][0]  # most entries of a report: nothing is to be converted
        else fields[name][1](entry, f"{place}.{name}")
        for name, entry in plain.items()
    }
    try:
        return kind(**values)
    except TypeError as problem:
        raise ValueError(f"{place}: {problem}") from None


def _filled(annotation: Any, variables: dict[Any, Any]) -> Any:
    """Return an annotation such as ``T | None`` with the type variable replaced. The dataclasses
    use type variables only in this way."""
    is_union = typing.get_origin(annotation) in (types.UnionType, typing.Union)
    kinds = typing.get_args(annotation) if is_union else (annotation,)
    return typing.Union[tuple(variables.get(kind, kind) for kind in kinds)]  # noqa: UP007


@functools.cache
def _fields(kind: Any, arguments: tuple[Any, ...]) -> dict[str, tuple[Any, Callable[..., Any]]]:
    """Map each field of a dataclass to its annotation, and to the function that reads it."""
    variables = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
    hints = typing.get_type_hints(kind)
    filled = ((name, _filled(hint, variables)) for name, hint in hints.items())
    return {name: (hint, _reader(hint)) for name, hint in filled}


def _scalar(kind: Any, plain: Any, place: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(plain)
        except ValueError:
            raise ValueError(
                f"{place}: {plain!r} is not one of {', '.join(str(item.value) for item in kind)}"
            ) from None
    if kind is bytes:
        return base64.b64decode(_check(isinstance(plain, str), plain, place))
    if kind is float:
        return float(
            _check(isinstance(plain, int | float) and not isinstance(plain, bool), plain, place)
        )
    return _check(
        isinstance(plain, kind) and (kind is bool or type(plain) is not bool), plain, place
    )


def _check(fits: bool, plain: Any, place: str) -> Any:
    if not fits:
        raise ValueError(f"{place}: {plain!r} does not fit")
    return plain
