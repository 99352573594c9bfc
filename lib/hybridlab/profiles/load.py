# SPDX-License-Identifier: Apache-2.0
"""Profiles from YAML: typed, checked, and refused with file and line if they are invalid.

This module converts values and refuses impossible ones; ``model`` documents what the values mean.
"""

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, cast

import yaml

from hybridlab.networks.registry import DEFAULT, PLANES
from hybridlab.profiles.check import ProfileError, Where, check
from hybridlab.profiles.model import PlaneSettings, Profile

Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def names() -> list[str]:
    """Return the names of the profiles that come with the lab."""
    return sorted(
        entry.name.removesuffix(".yaml")
        for entry in resources.files("hybridlab.profiles").iterdir()
        if entry.name.endswith(".yaml")
    )


def load(name_or_path: str, overrides: Sequence[str] = ()) -> Profile:
    """Return the profile with this name, or in this file, with ``KEY=VALUE`` overrides. Raise
    ProfileError."""
    if name_or_path.casefold() in names():
        name_or_path = name_or_path.casefold()
    document, where = _document(name_or_path)
    network = document.setdefault("network", {})
    if isinstance(network, dict):
        network.setdefault("plane", {"kind": DEFAULT})
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator or not key:
            raise ProfileError(
                f"--set {override}: expected KEY=VALUE, for example --set nodes.linux.count=1"
            )
        _override(document, where, key.strip(), text)
    name = Path(name_or_path).name.removesuffix(".yaml").removesuffix(".yml")
    profile = cast(Profile, _build(Profile, {"name": name, **document}, _Place(where)))
    check(profile, where)
    return profile


def _document(name_or_path: str) -> tuple[dict[str, Any], Where]:
    if name_or_path in names():
        text = resources.files("hybridlab.profiles").joinpath(f"{name_or_path}.yaml").read_text()
        where = Where(f"profile {name_or_path}")
    else:
        path = Path(name_or_path)
        if path.suffix not in {".yaml", ".yml"} and not path.exists():
            near = difflib.get_close_matches(name_or_path.casefold(), names(), 3)
            hint = f". Did you mean {' or '.join(near)}?" if near else "."
            raise ProfileError(
                f"there is no profile {name_or_path!r}{hint} "
                f"The profiles are {', '.join(names())}; the path of a YAML file is accepted, too"
            )
        try:
            text = path.read_text()
        except OSError as error:
            raise ProfileError(f"{path}: cannot read the profile: {error.strerror}") from error
        where = Where(str(path))
    try:
        node = yaml.compose(text, Loader=Loader)
        document = yaml.load(text, Loader=Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise ProfileError(
            f"{where.source}{line}: the profile is not valid YAML: "
            f"{getattr(error, 'problem', error)}"
        ) from error
    if not isinstance(document, dict):
        raise ProfileError(
            f"{where.source}:1: the profile is {_kind(document)}, expected a mapping of keys"
        )
    _note_lines(node, (), where)
    return document, where


def _note_lines(node: yaml.Node | None, path: tuple[str, ...], where: Where) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            where.lines[(*path, key.value)] = key.start_mark.line + 1
            _note_lines(value, (*path, key.value), where)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            where.lines[(*path, str(index))] = value.start_mark.line + 1
            _note_lines(value, (*path, str(index)), where)


def _override(document: dict[str, Any], where: Where, key: str, text: str) -> None:
    origin = f"--set {key}={text}"
    steps = key.split(".")
    path: tuple[str, ...] = ()
    try:
        value = yaml.load(text, Loader=Loader)
    except yaml.YAMLError as error:
        raise ProfileError(f"--set {key}={text}: the value is not valid YAML") from error
    target: Any = document
    for step in steps[:-1]:
        if isinstance(target, list):
            index = _index(step, target, origin)
            path = (*path, str(index))
            target = target[index]
        else:
            path = (*path, step)
            target = target.setdefault(step, {})
        if not isinstance(target, (dict, list)):
            raise ProfileError(f"{origin}: {step!r} is a single value and has no fields")
    if isinstance(target, list):
        last = _index(steps[-1], target, origin)
        path = (*path, str(last))
        target[last] = value
    else:
        path = (*path, steps[-1])
        target[steps[-1]] = value
    where.overridden[path] = origin


def _index(step: str, items: list[Any], where: str) -> int:
    for index, item in enumerate(items):
        if step == str(index) or (isinstance(item, dict) and item.get("name") == step):
            return index
    known = ", ".join(
        str(item.get("name", index)) for index, item in enumerate(items) if isinstance(item, dict)
    )
    raise ProfileError(f"{where}: the list has no entry {step!r}; its entries are {known}")


@dataclasses.dataclass(frozen=True)
class _Place:
    """The place of a value in a profile's document."""

    where: Where
    path: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """The path as users write it: an entry of a list is identified by its name."""

    def __str__(self) -> str:
        return ".".join(self.names)

    def below(self, key: object, name: object = None) -> "_Place":
        return _Place(self.where, (*self.path, str(key)), (*self.names, str(name or key)))

    def wrong(self, what: str) -> ProfileError:
        return ProfileError(f"{self.where.of(self.path)}: {what}")

    def not_as_expected(self, value: Any, expected: str) -> ProfileError:
        return self.wrong(f"{self} is {_kind(value)}, expected {expected}")


def _build(shape: Any, value: Any, place: _Place) -> Any:
    """Convert ``value`` to ``shape``: a dataclass, a scalar type, Literal, tuple, dict, or a union
    of these."""
    if isinstance(shape, type) and dataclasses.is_dataclass(shape):
        return _build_dataclass(shape, value, place)
    origin = typing.get_origin(shape)
    arguments = typing.get_args(shape)
    if origin is Literal:
        if value not in arguments:
            choices = ", ".join(map(str, arguments))
            raise place.wrong(f"{place} is {value!r}, expected one of {choices}")
        return value
    if origin in {types.UnionType, typing.Union}:
        options = [option for option in arguments if option is not type(None)]
        return None if value is None else _build(options[0], value, place)
    if origin is tuple:
        if not isinstance(value, list):
            raise place.not_as_expected(value, "a list")
        return tuple(
            _build(
                arguments[0],
                entry,
                place.below(index, _name(entry)),
            )
            for index, entry in enumerate(value)
        )
    if origin is dict:
        if not isinstance(value, dict):
            raise place.not_as_expected(value, "a mapping")
        return {str(key): str(entry) for key, entry in value.items()}
    return _build_scalar(shape, value, place)


def _build_scalar(shape: type, value: Any, place: _Place) -> Any:
    """Return ``value`` as a scalar. A number is accepted where text is expected; true and false are
    not accepted as numbers."""
    if type(value) in (int, float) and shape is str:
        return str(value)
    if not isinstance(value, shape) or (shape is int and isinstance(value, bool)):
        raise place.not_as_expected(value, _kind(shape()))
    return value


def _shape_of_plane(value: Any, place: _Place) -> type[PlaneSettings]:
    """Return the settings class of a plane's kind. Raise ProfileError for an unknown plane."""
    built = ", ".join(PLANES)
    if not isinstance(value, Mapping) or "kind" not in value:
        raise place.wrong(f"{place} has no kind, expected one of {built}")
    plane = PLANES.get(str(value["kind"]))
    if plane is None:
        kind = place.below("kind")
        raise kind.wrong(f"{kind} is {value['kind']!r}, expected one of {built}")
    return plane.settings_type


def _name(entry: Any) -> object:
    return entry.get("name") if isinstance(entry, dict) else None


def _build_dataclass(shape: type, value: Any, place: _Place) -> Any:
    if shape is PlaneSettings:
        shape = _shape_of_plane(value, place)
    if not isinstance(value, Mapping):
        raise place.not_as_expected(value, "a mapping of keys")
    hints = typing.get_type_hints(shape)
    fields = {field.name: field for field in dataclasses.fields(shape)}
    for key in value:
        if key not in fields:
            unknown = place.below(key)
            raise unknown.wrong(f"unknown key {str(unknown)!r}; possible here: {', '.join(fields)}")
    missing = [
        name
        for name, field in fields.items()
        if name not in value
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise place.wrong(f"{str(place) or 'the profile'} lacks {', '.join(missing)}")
    return shape(
        **{key: _build(hints[key], entry, place.below(key)) for key, entry in value.items()}
    )


def _kind(value: Any) -> str:
    return {
        dict: "a mapping",
        list: "a list",
        str: "text",
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        type(None): "empty",
    }.get(type(value), type(value).__name__)
