# SPDX-License-Identifier: Apache-2.0
"""Strict reading of objects' fields: the oracle refuses every field that it does not know.

Every refusal is a UsageProblem that names in one line the object, the field and the reason.
"""

import ipaddress
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from conformance.errors import UsageProblem
from conformance.policy import selectors
from conformance.policy.selectors import Selector

Obj = Mapping[str, Any]
shown = selectors.shown
Range = tuple[int, int]
"""The first and the last value of a range: addresses as numbers, or ports."""
IPV6 = 1 << 128
"""The offset that is added to the number of an IPv6 address, so that no IPv4 network contains it.
"""

PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58, "sctp": 132, "udplite": 136}
_NUMBER = re.compile(r"[0-9]{1,9}")


def label(obj: Obj) -> str:
    """Return ``NetworkPolicy shop/web``. Raise UsageProblem if there is no name."""
    meta = obj.get("metadata") or {}
    if not obj.get("kind") or not isinstance(meta, Mapping) or not meta.get("name"):
        raise UsageProblem(f"an object without kind or name: {shown(dict(obj))}")
    kind, name = (selectors.word(value) for value in (obj["kind"], meta["name"]))
    space = f"{selectors.word(meta['namespace'])}/" if meta.get("namespace") else ""
    return f"{kind} {space}{name}"


def is_foreign(obj: Obj) -> bool:
    """Return whether an object belongs to another project's API, whose kinds may have the same
    names."""
    group, slash, _ = str(obj.get("apiVersion") or "").partition("/")
    return bool(slash) and "." in group and not group.endswith((".k8s.io", "projectcalico.org"))


@contextmanager
def legible(where: str) -> Iterator[None]:
    """Raise UsageProblem if a value that the block reads has an unexpected type."""
    try:
        yield
    except (
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        ArithmeticError,
        RecursionError,
    ) as error:
        why = f"{type(error).__name__} {error}".partition("\n")[0]
        raise UsageProblem(f"{where}: cannot be read: {why[:120]}") from None


def mapping(value: Any, where: str, known: Collection[str] = ()) -> Obj:
    """Return a mapping; ``{}`` if the value is absent. Raise UsageProblem for a key that is not
    ``known``; an empty ``known`` allows any key."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UsageProblem(f"{where}: a mapping is expected, not {shown(value)}")
    strange = sorted(str(key) for key in value if key not in known) if known else []
    if strange:
        raise UsageProblem(f"{where}: unknown field {selectors.word(strange[0])}")
    return value


def sequence(value: Any, where: str) -> Sequence[Any]:
    """Return a list; an empty one if the value is absent."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise UsageProblem(f"{where}: a list is expected, not {shown(value)}")
    return value


def one_of(value: Any, where: str, known: Collection[str]) -> str:
    """Return a text that is one of the known words."""
    if not isinstance(value, str) or value not in known:
        raise UsageProblem(
            f"{where}: one of {', '.join(sorted(known))} is expected, not {shown(value)}"
        )
    return str(value)


def text(value: Any, where: str) -> str:
    """Return a text; an empty one if the value is absent."""
    if not isinstance(value, str | None):
        raise UsageProblem(f"{where}: a string is expected, not {shown(value)}")
    return value or ""


def number(value: Any, where: str) -> float:
    """Return a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise UsageProblem(f"{where}: a number is expected, not {shown(value)}")
    return float(value)


def readable(selector: Selector, where: str) -> Selector:
    """Return the selector. Raise UsageProblem if it cannot be read."""
    if selector.problem:
        raise UsageProblem(
            f"{where}: selector {shown(selector.text)} cannot be read: {selector.problem}"
        )
    return selector


def of_pods(text: Any, where: str) -> None:
    """Raise UsageProblem for ``global()``, which is allowed only as a rule's namespaceSelector."""
    if isinstance(text, str) and "global()" in text:
        raise UsageProblem(
            f"{where}: Calico refuses global() here: only a rule's namespaceSelector may contain it"
        )


def protocol(value: Any, where: str) -> int:
    """Return a protocol's number, given its name or number."""
    if isinstance(value, str) and value.lower() in PROTOCOLS:
        return PROTOCOLS[value.lower()]
    if _NUMBER.fullmatch(shown(value).strip("'")) and 1 <= int(value) <= 255:
        return int(value)
    raise UsageProblem(f"{where}: unknown protocol {shown(value)}")


def ports(value: Any, where: str) -> tuple[tuple[Range, ...], tuple[str, ...]]:
    """Return the numbers and ranges in a list (``80``, ``"80"``, ``"8000:8090"``), and the names in
    it."""
    ranges: list[Range] = []
    names = []
    for one in sequence(value, where):
        first, colon, last = shown(one).strip("'").partition(":")
        if _NUMBER.fullmatch(first) and _NUMBER.fullmatch(last if colon else first):
            ranges.append((int(first), int(last or first)))
            if not 1 <= ranges[-1][0] <= ranges[-1][1] <= 65535:
                raise UsageProblem(f"{where}: {one!r} is no range of ports")
        elif isinstance(one, str) and one and not colon:
            names.append(one)
        else:
            raise UsageProblem(f"{where}: {shown(one)} is no port")
    return tuple(ranges), tuple(names)


def nets(value: Any, where: str, *, bare: bool = True) -> tuple[Range, ...] | None:
    """Return the networks of a list, of either IP version, as numbers; None if there is no list.

    ``bare``: an address without a prefix counts as a network, too.
    """
    return tuple(_net(one, where, bare) for one in sequence(value, where)) if value else None


@lru_cache(65536)
def address(text: str) -> int:
    """Return an IPv4 address as a number.  Raise UsageProblem."""
    try:
        return int(ipaddress.IPv4Address(text))
    except ValueError:
        raise UsageProblem(f"{shown(text)} is no IPv4 address") from None


def ip(text: Any, where: str = "") -> int:
    """Return an address of either IP version as a number. Raise UsageProblem that begins with
    ``where``."""
    try:
        found = ipaddress.ip_address(text if isinstance(text, str) else "")
    except ValueError:
        raise UsageProblem(f"{where}{shown(text)} is no address") from None
    found = getattr(found, "ipv4_mapped", None) or found
    return int(found) + (IPV6 if found.version == 6 else 0)


def within(value: int | None, ranges: Collection[Range]) -> bool:
    """Return whether a number lies in any of the ranges; None lies in no range."""
    return value is not None and any(first <= value <= last for first, last in ranges)


def _net(one: Any, where: str, bare: bool) -> Range:
    try:
        # an IPv4 network may not be written with a mask, as 10.0.0.0/255.0.0.0
        is_one = isinstance(one, str) and (bare or "/" in one) and "." not in one.partition("/")[2]
        found = ipaddress.ip_network(one if is_one else "", strict=False)
    except ValueError:
        raise UsageProblem(f"{where}: {shown(one)} is no network") from None
    mapped = getattr(found.network_address, "ipv4_mapped", None) is not None
    # Calico reads a network in ::ffff:0.0.0.0/96 as an IPv4 network
    base = -(0xFFFF << 32) if mapped else IPV6 if found.version == 6 else 0
    return int(found.network_address) + base, int(found.broadcast_address) + base


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the ranges in order, with adjoining ranges joined."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and found[-1][1] + 1 == first:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return tuple(found)
