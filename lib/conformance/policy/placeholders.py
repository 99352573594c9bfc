"""From a policy's YAML twin to the object that is applied: ``${server.role}`` and the like, filled in.

Pure, on parsed objects and not on text: a value can never change a manifest's structure.  It applies nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.errors import UsageProblem
from conformance.model.endpoint import Workload

Obj = dict[str, Any]
_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")
_OF_WORKLOADS = ("role", "address", "namespace", "node_address", "os")
"""What a manifest may say of a workload: ``${client.address}``."""


def values(*, namespace: str, run: str, **named: Workload | str) -> dict[str, str]:
    """What manifests may name: the run's own words, plain values, and some fields of each workload."""
    found = {"namespace": namespace, "run": run}
    for name, one in named.items():
        if isinstance(one, Workload):
            found |= {f"{name}.{field}": str(getattr(one, field)) for field in _OF_WORKLOADS}
        else:
            found[name] = one
    return found


def fill(objects: Sequence[Obj], known: Mapping[str, str], *, where: str) -> list[Obj]:
    """The objects with every placeholder replaced, in values and in keys.

    Raises UsageProblem when one is not known.
    """
    asked = {name for text in _texts(list(objects)) for name in _PLACEHOLDER.findall(text)}
    unknown = sorted(asked - known.keys())
    if unknown:
        raise UsageProblem(
            f"manifest {where}: no value for {', '.join(f'${{{name}}}' for name in unknown)}; "
            f"there are {', '.join(sorted(known))}"
        )
    filled = [_filled(one, known) for one in objects]
    left = next((text for text in _texts(filled) if "${" in text), None)
    if left is not None:
        raise UsageProblem(f"manifest {where}: {left!r} is a placeholder that cannot be read")
    return filled


def unused(objects: Sequence[Obj], names: Sequence[str]) -> list[str]:
    """Those of ``names`` that no placeholder begins with: a test gives something that its manifest ignores."""
    asked = {name.partition(".")[0] for text in _texts(list(objects)) for name in _PLACEHOLDER.findall(text)}
    return [name for name in names if name not in asked]


def _filled(value: Any, known: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: known[match[1]], value)
    if isinstance(value, dict):
        return {_filled(key, known): _filled(entry, known) for key, entry in value.items()}
    if isinstance(value, list):
        return [_filled(entry, known) for entry in value]
    return value


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
