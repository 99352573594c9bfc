# SPDX-License-Identifier: Apache-2.0
"""The fields of a batch's attempts with their types, according to docs/probe-protocol.md section
5."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybridlab.probe_programs.dns import RECORDS, is_address

KINDS = ("tcp", "http", "udp", "dns")
LONGEST_MS = 10_000_000
PAYLOAD_LIMIT = 1 << 24
DEFAULTS: Mapping[str, Any] = {
    "path": "/", "send": "probe", "payload": 0, "whole": False, "from_port": 0, "record": "A", "over": "udp",
}  # fmt: skip
NO_SERVER: Mapping[str, Any] = {"host": "", "port": 53}
"""The server fields of a DNS attempt that names no server: the agent then queries the pod's own DNS
server."""


def _whole(least: int, most: float = float("inf")) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    )


def _among(*known: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in known


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _patience(value: Any) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= LONGEST_MS
    )


FIELDS: Sequence[tuple[str, tuple[str, ...], Callable[[Any], bool], str]] = (
    ("id", KINDS, _whole(0), "a whole number from 0 on"),
    ("give_up_ms", KINDS, _patience, f"a number above 0 and at most {LONGEST_MS}"),
    ("host", ("tcp", "http", "udp"), _text, "text"),
    (
        "host",
        ("dns",),
        lambda value: value == "" or (_text(value) and is_address(value)),
        "an address",
    ),
    ("port", KINDS, _whole(1, 65535), "a whole number from 1 to 65535"),
    ("path", ("http",), _text, "text"),
    ("send", ("udp",), _text, "text"),
    ("whole", ("udp",), lambda value: isinstance(value, bool), "true or false"),
    ("from_port", ("udp",), _whole(0, 65535), "a whole number from 0 to 65535"),
    (
        "payload",
        ("http", "udp"),
        _whole(0, PAYLOAD_LIMIT),
        f"a whole number from 0 to {PAYLOAD_LIMIT}",
    ),
    ("query", ("dns",), _text, "text"),
    ("record", ("dns",), _among(*RECORDS), f"one of {', '.join(RECORDS)}"),
    ("over", ("dns",), _among("udp", "tcp"), "udp or tcp"),
)
"""For each field: its name, the kinds of attempt that have it, the check of its value, and that
check in words."""


def checked(attempts: Any) -> list[dict[str, Any]]:
    """Return a batch's attempts with defaults for their missing fields. Raise ValueError; the
    message names the attempt and the field."""
    if not isinstance(attempts, list):
        raise ValueError("attempts must be a list")
    found = list[dict[str, Any]]()
    ids = set[int]()
    for place, one in enumerate(attempts):
        if not isinstance(one, dict):
            raise ValueError(f"attempt {place}: it must be an object")
        if one.get("kind") == "dns" and one.get("host") == "":
            raise ValueError(f"attempt {place}: host must be an address")
        spec = {**DEFAULTS, **(NO_SERVER if one.get("kind") == "dns" else {}), **one}
        if problem := _problem(spec):
            raise ValueError(f"attempt {place}: {problem}")
        if spec["id"] in ids:
            raise ValueError(f"attempt {place}: another of the batch has the same id")
        ids.add(spec["id"])
        found.append(spec)
    return found


def _problem(spec: dict[str, Any]) -> str:
    """Return what is wrong with an attempt; an empty string if the attempt is valid."""
    kind = spec.get("kind")
    if not _among(*KINDS)(kind):
        return "kind must be tcp, http, udp or dns"
    for field, kinds, right, wanted in FIELDS:
        if kind in kinds and not right(spec.get(field)):
            return f"{field} must be {wanted}"
    return ""
