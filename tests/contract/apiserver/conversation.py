# SPDX-License-Identifier: Apache-2.0
"""Conversations with an API server: the requests, step by step, from ``conversations/*.yaml``.

A conversation has a namespace of its own, ``{ns}``, and can store parts of answers as variables for
later steps. A step contains the request (``send``, ``body`` or ``raw``, ``type``, ``headers``,
``as``), the condition for which it is repeated (``until``), the stored parts of the answer
(``keep``), and the parts that are compared (``show``; ``silent``: nothing is compared).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
CONVERSATIONS = sorted((FOLDER / "conversations").glob("*.yaml"))
TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json-patch": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
    "none": "",
}
"""Short names of content types."""


@dataclass(frozen=True)
class Until:
    """The condition for which a request is repeated: the answer has this code, and this value at
    this path."""

    code: int = 200
    at: str = ""
    has: Any = None


@dataclass(frozen=True)
class Step:
    """One request, and the parts of its answer that are compared."""

    name: str
    method: str
    path: str
    body: Any = None
    raw: str | None = None
    type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    token: str = "admin"
    """The name of a variable with the bearer token, or ``nobody`` or ``stranger``."""
    keep: Mapping[str, str] = field(default_factory=dict)
    """Map each variable to the path of its value in the answer."""
    until: Until | None = None
    show: tuple[str, ...] = ()
    """The paths of the parts that are compared; empty: everything."""
    silent: bool = False
    watch: float = 0.0
    """The seconds for which a watch lasts, whose events are the answer; 0: the request is no
    watch."""
    meanwhile: tuple[Step, ...] = ()
    """Steps that are taken during the watch."""


@dataclass(frozen=True)
class Conversation:
    """Steps that belong together."""

    name: str
    about: str
    steps: tuple[Step, ...]
    controllers: bool = False
    """The server's controllers must run: objects that they make or delete are part of the
    answers."""


def load(path: Path) -> Conversation:
    """Read a conversation. Raise ValueError if two steps have the same name."""
    document = yaml.safe_load(path.read_text())
    steps = tuple(_step(entry) for entry in document["steps"])
    names = [step.name for step in steps if not step.silent]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"{path.name}: these steps come twice: {sorted(twice)}")
    return Conversation(path.stem, document["about"], steps, bool(document.get("controllers")))


def _step(entry: dict[str, Any]) -> Step:
    method, _, path = entry["send"].partition(" ")
    return Step(
        name=entry.get("step") or entry["send"],
        method=method,
        path=path,
        body=entry.get("body"),
        raw=entry.get("raw"),
        type=TYPES.get(entry.get("type", ""), entry.get("type", "application/json")),
        headers=entry.get("headers") or {},
        token=entry.get("as", "admin"),
        keep=entry.get("keep") or {},
        until=Until(**entry["until"]) if "until" in entry else None,
        show=tuple(entry.get("show") or ()),
        silent="step" not in entry,
        watch=entry.get("watch", 0.0),
        meanwhile=tuple(_step(inner) for inner in entry.get("meanwhile") or ()),
    )
