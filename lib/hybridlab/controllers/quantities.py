"""Kubernetes quantities (``250m``, ``1.5Gi``) as exact numbers, and what a pod asks for in total."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from hybridlab.api.contract import Obj

_FORM = re.compile(r"^([+-]?[0-9.]+)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$")
_SUFFIX = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(10**3), "M": Decimal(10**6),
    "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18), "Ki": Decimal(2**10),
    "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip


@lru_cache(maxsize=1024)
def quantity(text: str) -> Decimal:
    """The number that a quantity means.  Raises ValueError when it is none."""
    found = _FORM.match(text)
    if not found:
        raise ValueError(f"{text!r} is not a quantity")
    number, suffix = found.groups()
    if not suffix:
        return Decimal(number)
    return Decimal(number) * _SUFFIX[suffix] if suffix in _SUFFIX else Decimal(number + suffix)


def requests(pod: Obj) -> dict[str, Decimal]:
    """What the scheduler reserves for a pod, by resource name: the sum of its containers and side-cars, or the
    largest init container if that is more, plus overhead.  A limit without a request counts as the request."""
    spec = pod["spec"]
    total: dict[str, Decimal] = {}
    for container in spec["containers"]:
        _add(total, _of(container))
    largest: dict[str, Decimal] = {}
    for container in spec.get("initContainers", ()):
        if container.get("restartPolicy") == "Always":
            _add(total, _of(container))
            continue
        for name, amount in _of(container).items():
            largest[name] = max(largest.get(name, Decimal(0)), amount)
    for name, amount in largest.items():
        total[name] = max(total.get(name, Decimal(0)), amount)
    _add(total, {name: quantity(str(value)) for name, value in (spec.get("overhead") or {}).items()})
    return total


def _of(container: Obj) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: quantity(str(value)) for name, value in wanted.items()}


def _add(total: dict[str, Decimal], more: dict[str, Decimal]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount
