# SPDX-License-Identifier: Apache-2.0
"""Placeholders such as ``${server.role}`` in a policy's manifest, which are replaced by values.

The functions are pure and work on parsed objects, not on text: a value can never change a
manifest's structure. This module applies nothing to a cluster.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.errors import UsageProblem
from conformance.model.counted import counted
from conformance.model.endpoint import Workload

Obj = dict[str, Any]
Named = Workload | Sequence[Workload] | Sequence[str] | str | int
"""The argument of a test for a placeholder."""
Value = str | int | tuple[str, ...]
"""A placeholder's value. A tuple repeats the entry of a list that contains the placeholder. A
number stays a number if the placeholder is the whole value."""
_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")
_OF_WORKLOADS = ("role", "address", "namespace", "node_address", "os")
"""Fields of a workload that a manifest may use: ``${client.address}``."""


def values(*, namespace: str, run: str, **named: Named) -> dict[str, Value]:
    """Return the value of each placeholder: the namespace and id of the run, plain values, and
    fields of each workload.

    If the workloads of a group differ in a field, its value is a tuple; a list of texts also
    becomes a tuple.
    """
    found: dict[str, Value] = {"namespace": namespace, "run": run}
    for name, one in named.items():
        if isinstance(one, str | int):
            found[name] = one
            continue
        members = [one] if isinstance(one, Workload) else list(one)
        texts = tuple(item for item in members if isinstance(item, str))
        if texts:
            found[name] = texts
            continue
        for field in _OF_WORKLOADS:
            several = tuple(dict.fromkeys(str(getattr(member, field)) for member in members))
            found[f"{name}.{field}"] = several[0] if len(several) == 1 else several
    return found


def fill(objects: Sequence[Obj], known: Mapping[str, Value], *, where: str) -> list[Obj]:
    """Return the objects with every placeholder replaced, in values and in keys.

    If the value of a placeholder is a tuple, the object is created once for each value in the
    tuple. Raise UsageProblem for a placeholder without a value.
    """
    asked = {name for text in _texts(list(objects)) for name in _PLACEHOLDER.findall(text)}
    unknown = sorted(asked - known.keys())
    if unknown:
        raise UsageProblem(
            f"manifest {where}: no value for {', '.join(f'${{{name}}}' for name in unknown)}; "
            f"there are {', '.join(sorted(known))}"
        )
    filled: list[Obj] = _filled(list(objects), known)
    left = next((text for text in _texts(filled) if "${" in text), None)
    if left is not None:
        raise UsageProblem(f"manifest {where}: {left!r} is not a valid placeholder")
    return filled


def filled_text(text: str, known: Mapping[str, Value]) -> str:
    """Return one text with its placeholders replaced."""
    return str(_filled(text, known))


def unused(objects: Sequence[Obj], names: Sequence[str]) -> list[str]:
    """Return those ``names`` that no placeholder begins with: a test's values that its manifest
    ignores."""
    asked = {
        name.partition(".")[0]
        for text in _texts(list(objects))
        for name in _PLACEHOLDER.findall(text)
    }
    return [name for name in names if name not in asked]


def _filled(value: Any, known: Mapping[str, Value]) -> Any:
    if isinstance(value, str):
        whole = _PLACEHOLDER.fullmatch(value)
        if whole and isinstance(known[whole[1]], int):
            return known[whole[1]]
        return _PLACEHOLDER.sub(lambda match: _single(match[1], known), value)
    if isinstance(value, dict):
        return {_filled(key, known): _filled(entry, known) for key, entry in value.items()}
    if isinstance(value, list):
        return [_filled(entry, each) for entry in value for each in _each(entry, known)]
    return value


def _each(entry: Any, known: Mapping[str, Value]) -> list[Mapping[str, Value]]:
    """Return the values that fill an entry of a list. If the value of a placeholder in the entry is
    a tuple, return them once for each item of the tuple, with the item as the placeholder's
    value."""
    asked = {name for text in _texts(_without_lists(entry)) for name in _PLACEHOLDER.findall(text)}
    several = sorted(name for name in asked if isinstance(known[name], tuple))
    if not several:
        return [known]
    return [{**known, several[0]: item} for item in known[several[0]]]  # type: ignore[union-attr]


def _without_lists(value: Any) -> Any:
    """Return an entry without the lists in it: each of these lists repeats its own entries."""
    if isinstance(value, dict):
        return {
            key: _without_lists(entry)
            for key, entry in value.items()
            if not isinstance(entry, list)
        }
    return value


def _single(name: str, known: Mapping[str, Value]) -> str:
    value = known[name]
    if isinstance(value, tuple):
        raise UsageProblem(
            f"${{{name}}} has {counted(len(value), 'value')}, and only a list's entry is repeated for each of them"
        )
    return str(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from _texts(key)
            yield from _texts(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _texts(entry)
