# SPDX-License-Identifier: Apache-2.0
"""Reads fields of objects strictly: what the oracle does not know it refuses, and never passes over.

Every refusal is a UsageProblem that says in one line which object, which field and why.
"""

import ipaddress
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from conformance.errors import UsageProblem
from conformance.policy.selectors import Selector

Obj = Mapping[str, Any]
Range = tuple[int, int]
"""First and last, of addresses as numbers or of ports."""

PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58, "sctp": 132, "udplite": 136}


def label(obj: Obj) -> str:
    """``NetworkPolicy shop/web``; Raises UsageProblem where there is no name."""
    meta = obj.get("metadata") or {}
    if not obj.get("kind") or not isinstance(meta, Mapping) or not meta.get("name"):
        raise UsageProblem(f"an object without kind or name: {str(dict(obj))[:60]}")
    space = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{obj['kind']} {space}{meta['name']}"


def mapping(value: Any, where: str, known: Collection[str] = ()) -> Obj:
    """A mapping, ``{}`` for nothing, with no other keys than these; none named: any."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UsageProblem(f"{where}: a mapping is expected, not {value!r}")
    strange = sorted(str(key) for key in value if key not in known) if known else []
    if strange:
        raise UsageProblem(f"{where}: unknown field {strange[0]}")
    return value


def sequence(value: Any, where: str) -> Sequence[Any]:
    """A list, empty for nothing."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise UsageProblem(f"{where}: a list is expected, not {value!r}")
    return value


def one_of(value: Any, where: str, known: Collection[str]) -> str:
    """One of some words."""
    if value not in known:
        raise UsageProblem(f"{where}: one of {', '.join(sorted(known))} is expected, not {value!r}")
    return str(value)


def number(value: Any, where: str) -> float:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageProblem(f"{where}: a number is expected, not {value!r}")
    return float(value)


def readable(selector: Selector, where: str) -> Selector:
    """The selector, which can be read."""
    if selector.problem:
        raise UsageProblem(
            f"{where}: selector {selector.text!r} cannot be read: {selector.problem}"
        )
    return selector


def protocol(value: Any, where: str) -> int:
    """A protocol's number, from its name or itself."""
    if isinstance(value, str) and value.lower() in PROTOCOLS:
        return PROTOCOLS[value.lower()]
    if str(value).isdigit() and 1 <= int(value) <= 255:
        return int(value)
    raise UsageProblem(f"{where}: unknown protocol {value!r}")


def ports(value: Any, where: str) -> tuple[tuple[Range, ...], tuple[str, ...]]:
    """Numbers and ranges (``80``, ``"80"``, ``"8000:8090"``) of a list, and the names in it."""
    ranges: list[Range] = []
    names = []
    for one in sequence(value, where):
        first, colon, last = str(one).partition(":")
        if first.isdigit() and (last if colon else first).isdigit():
            ranges.append((int(first), int(last or first)))
            if not 0 <= ranges[-1][0] <= ranges[-1][1] <= 65535:
                raise UsageProblem(f"{where}: {one!r} is no range of ports")
        elif isinstance(one, str) and one and not colon:
            names.append(one)
        else:
            raise UsageProblem(f"{where}: {one!r} is no port")
    return tuple(ranges), tuple(names)


def nets(value: Any, where: str) -> tuple[Range, ...] | None:
    """The IPv4 networks of a list, as numbers; those of IPv6 hold no IPv4 address and are left out; None: no list."""
    if not value:
        return None
    return tuple(found for one in sequence(value, where) if (found := _net(one, where)) is not None)


@lru_cache(65536)
def address(text: str) -> int:
    """An IPv4 address as a number.  Raises UsageProblem."""
    try:
        return int(ipaddress.IPv4Address(text))
    except ValueError:
        raise UsageProblem(f"{text!r} is no IPv4 address") from None


def within(value: int | None, ranges: Collection[Range]) -> bool:
    """Whether a number is in one of the ranges; None is in none."""
    return value is not None and any(first <= value <= last for first, last in ranges)


def _net(one: Any, where: str) -> Range | None:
    try:
        found = ipaddress.ip_network(one, strict=False)
    except (ValueError, TypeError):
        raise UsageProblem(f"{where}: {one!r} is no network") from None
    if found.version == 6:
        return None
    return int(found.network_address), int(found.broadcast_address)
