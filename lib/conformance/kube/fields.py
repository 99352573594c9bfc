# SPDX-License-Identifier: Apache-2.0
"""Reads nested fields of objects whose parents may be absent or null."""

from collections.abc import Iterable, Mapping
from typing import Any


def value_at(obj: Mapping[str, Any] | None, *path: str) -> Any:
    """Return the value below a path of keys; None if a step is absent or null."""
    found: Any = obj
    for key in path:
        found = (found or {}).get(key)
    return found


def mapping_at(obj: Mapping[str, Any] | None, *path: str) -> dict[str, Any]:
    """Return the mapping below a path of keys; an empty mapping if a step is absent or null."""
    return value_at(obj, *path) or {}


def list_at(obj: Mapping[str, Any] | None, *path: str) -> list[Any]:
    """Return the list below a path of keys; an empty list if a step is absent or null."""
    return value_at(obj, *path) or []


def ipv4_first(addresses: Iterable[str | None]) -> str:
    """Return the first IPv4 address, since Calico for Windows uses only IPv4; else the first
    address; an empty string if there is no address."""
    given = [address for address in addresses if address]
    return next((address for address in given if ":" not in address), given[0] if given else "")


def pod_address(status: Mapping[str, Any]) -> str:
    """Return the address to which a pod's traffic is sent; an empty string if it has none yet."""
    several = (value_at(item, "ip") for item in list_at(status, "podIPs"))
    return ipv4_first([*several, value_at(status, "podIP")])
