# SPDX-License-Identifier: Apache-2.0
"""Converts JSON values to frozen dataclasses and arguments of calls, by their type hints; orjson
writes them.

It covers what the lab's dataclasses and calls use: nested dataclasses, ``tuple[X, ...]`` and fixed
tuples, ``list[X]`` and ``Sequence[X]`` (both arrive as lists), ``dict[str, X]``, ``X | None``,
``None``, ``Literal`` and scalars. An unknown key or a missing field is an error that names its
place. There is no renaming, no defaults of its own, and no general validation.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
_Decoder = Callable[[Any, str], Any]


class ShapeError(Exception):
    """The JSON value does not have the wanted form; the message starts with the path to the wrong
    place."""


def from_json(cls: type[T], value: Any) -> T:
    """Build ``cls`` from a JSON value; raise :class:`ShapeError`."""
    hint: Any = cls
    decoded: T = decoder(hint)(value, cls.__name__)
    return decoded


@cache
def decoder(hint: Any) -> _Decoder:
    """Return the function from (JSON value, its place for messages) to a value of a type; raise
    TypeError for a type that cannot be sent."""
    origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass_decoder(hint)
    if origin is tuple:
        return _tuple_decoder(typing.get_args(hint))
    if origin in (Sequence, list):
        item = decoder(typing.get_args(hint)[0])
        return lambda value, at: [
            item(v, f"{at}[{i}]") for i, v in enumerate(_expect(list, value, at))
        ]
    if origin is dict:
        item = decoder(typing.get_args(hint)[1])
        return lambda value, at: {
            k: item(v, f"{at}.{k}") for k, v in _expect(dict, value, at).items()
        }
    if origin in (types.UnionType, typing.Union):
        return _optional_decoder(hint)
    if origin is typing.Literal:
        return _literal_decoder(typing.get_args(hint))
    if hint is Any or hint is object:
        return lambda value, at: value
    if hint is float:
        return lambda value, at: float(value) if type(value) is int else _expect(float, value, at)
    if hint in (str, int, bool, type(None)):
        return lambda value, at: _expect(hint, value, at)
    raise TypeError(f"a field of type {hint!r} cannot cross the socket; add it to shapes.py")


def _expect(kind: type, value: Any, at: str) -> Any:
    if type(value) is not kind:
        raise ShapeError(
            f"{at}: expected {kind.__name__}, got {type(value).__name__} {value!r:.80}"
        )
    return value


def _dataclass_decoder(cls: type) -> _Decoder:
    hints = typing.get_type_hints(cls)
    fields = {f.name: decoder(hints[f.name]) for f in dataclasses.fields(cls)}

    def decode(value: Any, at: str) -> Any:
        given = _expect(dict, value, at)
        for name in given:
            if name not in fields:
                raise ShapeError(
                    f"{at}: unknown field {name!r}; the fields are {', '.join(fields)}"
                )
        try:
            return cls(**{name: fields[name](v, f"{at}.{name}") for name, v in given.items()})
        except TypeError as error:
            raise ShapeError(f"{at}: {error}") from error

    return decode


def _tuple_decoder(args: tuple[Any, ...]) -> _Decoder:
    if len(args) == 2 and args[1] is Ellipsis:
        item = decoder(args[0])
        return lambda value, at: tuple(
            item(v, f"{at}[{i}]") for i, v in enumerate(_expect(list, value, at))
        )
    items = [decoder(a) for a in args]

    def decode(value: Any, at: str) -> Any:
        given = _expect(list, value, at)
        if len(given) != len(items):
            raise ShapeError(
                f"{at}: expected a list of length {len(items)}, got one of length {len(given)}"
            )
        return tuple(
            item(v, f"{at}[{i}]") for i, (item, v) in enumerate(zip(items, given, strict=True))
        )

    return decode


def _optional_decoder(hint: Any) -> _Decoder:
    inner = [a for a in typing.get_args(hint) if a is not type(None)]
    if len(inner) == 1:
        only = decoder(inner[0])
        return lambda value, at: None if value is None else only(value, at)
    kinds = tuple(inner)

    def decode(value: Any, at: str) -> Any:
        if type(value) not in kinds:
            raise ShapeError(f"{at}: expected one of {hint}, got {type(value).__name__}")
        return value

    return decode


def _literal_decoder(allowed: tuple[Any, ...]) -> _Decoder:
    def decode(value: Any, at: str) -> Any:
        if value not in allowed:
            raise ShapeError(
                f"{at}: expected one of {', '.join(map(str, allowed))}, got {value!r:.80}"
            )
        return value

    return decode
