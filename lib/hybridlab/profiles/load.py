"""Profiles from YAML: typed, checked, and refused with file and line when something is wrong.

Does not decide what a value means, only that it is possible.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeGuard, cast

import yaml

from hybridlab.networks.registry import DEFAULT, PLANES
from hybridlab.profiles.check import ProfileError, Where, check
from hybridlab.profiles.model import PlaneSettings, Profile

Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def names() -> list[str]:
    """Names of the profiles that come with the lab."""
    return sorted(
        entry.name.removesuffix(".yaml")
        for entry in resources.files("hybridlab.profiles").iterdir()
        if entry.name.endswith(".yaml")
    )


def load(name_or_path: str, overrides: Sequence[str] = ()) -> Profile:
    """The profile of that name, or in that file, with ``KEY=VALUE`` overrides.  Raises ProfileError."""
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
    profile = cast(Profile, _build(Profile, {"name": name, **document}, where, ()))
    check(profile, where)
    return profile


def _document(name_or_path: str) -> tuple[dict[str, Any], Where]:
    if name_or_path in names():
        text = resources.files("hybridlab.profiles").joinpath(f"{name_or_path}.yaml").read_text()
        where = Where(f"profile {name_or_path}")
    else:
        path = Path(name_or_path)
        if path.suffix not in {".yaml", ".yml"} and not path.exists():
            raise ProfileError(
                f"unknown profile {name_or_path!r}: known are {', '.join(names())}, or give a YAML file"
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
            f"{where.source}{line}: not YAML: {getattr(error, 'problem', error)}"
        ) from error
    if not isinstance(document, dict):
        raise ProfileError(
            f"{where.source}:1: a profile is a mapping of keys, this is {_kind(document)}"
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
    said = f"--set {key}={text}"
    steps = key.split(".")
    path: tuple[str, ...] = ()
    try:
        value = yaml.load(text, Loader=Loader)
    except yaml.YAMLError as error:
        raise ProfileError(f"--set {key}={text}: the value is not YAML") from error
    target: Any = document
    for step in steps[:-1]:
        if isinstance(target, list):
            index = _index(step, target, said)
            path = (*path, str(index))
            target = target[index]
        else:
            path = (*path, step)
            target = target.setdefault(step, {})
        if not isinstance(target, (dict, list)):
            raise ProfileError(f"{said}: {step!r} is a single value, it has no parts")
    if isinstance(target, list):
        last = _index(steps[-1], target, said)
        path = (*path, str(last))
        target[last] = value
    else:
        path = (*path, steps[-1])
        target[steps[-1]] = value
    where.overridden[path] = said


def _index(step: str, items: list[Any], where: str) -> int:
    for index, item in enumerate(items):
        if step == str(index) or (isinstance(item, dict) and item.get("name") == step):
            return index
    known = ", ".join(
        str(item.get("name", index)) for index, item in enumerate(items) if isinstance(item, dict)
    )
    raise ProfileError(f"{where}: no entry {step!r} in the list; there are {known}")


def _build(shape: Any, value: Any, where: Where, path: tuple[str, ...]) -> Any:
    """``value`` as ``shape`` (a dataclass, a scalar type, Literal, tuple, dict or union of those)."""
    if _is_shape(shape):
        return _build_dataclass(shape, value, where, path)
    origin = typing.get_origin(shape)
    if origin is Literal:
        allowed = typing.get_args(shape)
        if value not in allowed:
            choices = ", ".join(map(str, allowed))
            raise ProfileError(
                f"{where.of(path)}: {_dotted(path)} is {value!r}, expected one of {choices}"
            )
        return value
    if origin in {types.UnionType, typing.Union}:
        options = [option for option in typing.get_args(shape) if option is not type(None)]
        return None if value is None else _build(options[0], value, where, path)
    if origin is tuple:
        if not isinstance(value, list):
            raise ProfileError(
                f"{where.of(path)}: {_dotted(path)} is {_kind(value)}, expected a list"
            )
        item = typing.get_args(shape)[0]
        return tuple(
            _build(item, entry, where, (*path, str(index))) for index, entry in enumerate(value)
        )
    if origin is dict:
        if not isinstance(value, dict):
            raise ProfileError(
                f"{where.of(path)}: {_dotted(path)} is {_kind(value)}, expected a mapping"
            )
        return {str(key): str(entry) for key, entry in value.items()}
    if shape is str and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, shape) or (shape is int and isinstance(value, bool)):
        raise ProfileError(
            f"{where.of(path)}: {_dotted(path)} is {_kind(value)}, expected {shape.__name__}"
        )
    return value


def _shape_of_plane(value: Any, where: Where, path: tuple[str, ...]) -> type[PlaneSettings]:
    """The shape that the plane's kind says.  Raises ProfileError for a plane that is not built."""
    built = ", ".join(PLANES)
    if not isinstance(value, Mapping) or "kind" not in value:
        raise ProfileError(
            f"{where.of(path)}: {_dotted(path)} is told by its kind first, one of {built}"
        )
    plane = PLANES.get(str(value["kind"]))
    if plane is None:
        kind = (*path, "kind")
        raise ProfileError(
            f"{where.of(kind)}: {_dotted(kind)} is {value['kind']!r}, which is not built; built: {built}"
        )
    return plane.settings_type


def _build_dataclass(shape: type, value: Any, where: Where, path: tuple[str, ...]) -> Any:
    if shape is PlaneSettings:
        shape = _shape_of_plane(value, where, path)
    if not isinstance(value, Mapping):
        raise ProfileError(
            f"{where.of(path)}: {_dotted(path)} is {_kind(value)}, expected keys of {shape.__name__}"
        )
    hints = typing.get_type_hints(shape)
    fields = {field.name: field for field in dataclasses.fields(shape)}
    for key in value:
        if key not in fields:
            raise ProfileError(
                f"{where.of((*path, str(key)))}: unknown key {_dotted((*path, str(key)))!r}; "
                f"known here are {', '.join(fields)}"
            )
    missing = [
        name
        for name, field in fields.items()
        if name not in value
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ProfileError(
            f"{where.of(path)}: {_dotted(path) or 'the profile'} lacks {', '.join(missing)}"
        )
    return shape(
        **{key: _build(hints[key], entry, where, (*path, key)) for key, entry in value.items()}
    )


def _is_shape(shape: Any) -> TypeGuard[type]:
    return isinstance(shape, type) and dataclasses.is_dataclass(shape)


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(path)


def _kind(value: Any) -> str:
    return {
        dict: "a mapping",
        list: "a list",
        str: "text",
        bool: "true or false",
        type(None): "empty",
    }.get(type(value), type(value).__name__)
