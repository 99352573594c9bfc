"""The seats that worlds are chosen on: one Linux and one Windows node, the least that a cluster can have."""

from __future__ import annotations

from typing import Any

from conformance.policy.worlds import SEATS_OF_ACCOUNT, Seat

Obj = dict[str, Any]

NAMESPACES = {"a": "run-a", "b": "run-b"}
SEATS = tuple(
    Seat(space, system, f"{system}-1", f"{space}-{system}", f"10.0.{number}.{10 if space == 'a' else 11}")
    for number, system in enumerate(("linux", "windows"))
    for space in ("a", "b")
)
assert SEATS_OF_ACCOUNT
