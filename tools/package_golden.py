# SPDX-License-Identifier: Apache-2.0
"""Write the golden conversations that a run holds with its agents: those that pods can hold.

Most connect to nothing but the pod's own echo server and a closed port; others to ``golden_server.py`` in a Linux pod.
Left out are those in which the agent ends, IPv6, what takes more characters or connections than are worth their way
through an exec, what a network between two pods may cut or drop (datagrams and bodies of many packets), and what
depends on how soon a refusal comes, which takes Windows seconds.

python tools/package_golden.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "contract" / "golden"
PACKAGED = ROOT / "lib" / "conformance" / "probe" / "golden.json"
QUIT = {"type": "quit"}
OF_THE_POD = {"$ECHO", "$REFUSING"}
BESIDE = {
    "$DROPPING",
    "$RESETTING",
    "$CLOSING",
    "$SILENT",
    "$HTTP",
    "$DNS",
    "$EMPTY",
    "$COUNT",
    "$SAME",
}
"""Servers of ``golden_server.py``."""
IDENTITY = {"ns/echo": "$POD", "w1": "$NODE"}
"""What the echo server of the contract tests calls itself, and what stands for a pod's own name."""
LONGEST = 20_000
"""Characters of a conversation."""
MOST_ATTEMPTS = 100
"""In one conversation."""
PATIENT_MS = 10_000
"""Windows tries a refused connection again, which takes 1 to 3 s; and a program's first steps are slow there."""
LARGE = {"/head-70000", "/body-1000000", "huge.test."}
"""Answers of many packets, of which an MTU that is set wrong loses some."""
ALONE = "watching all streams"
"""Needs an agent of its own: it tells of all streams, those of other conversations too."""


def packaged() -> str:
    """The text of the packaged file: one conversation a line, without hello and farewell, which all of them share."""
    agent = [made for item in _read("conversations") if (made := _inner(item))]
    streams = [made for item in _read("streams") if (made := _inner(item))]
    streams.sort(key=_leaves_streams)
    named = [_renamed(item, str(number)) for number, item in enumerate(streams)]
    return f'{{"agent": [\n{_lines(agent)}\n],\n"stream agent": [\n{_lines(named)}\n]}}\n'


def _leaves_streams(conversation: dict[str, Any]) -> bool:
    """Whether its agent keeps streams of it, which a later report on all streams would name."""
    said = json.dumps(conversation)
    return '"ends": [{' in said and '"stream-close"' not in said


def _read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / f"{name}.jsonl").read_text().splitlines()]


def _lines(conversations: list[dict[str, Any]]) -> str:
    return ",\n".join(json.dumps(item, separators=(",", ":")) for item in conversations)


def _inner(conversation: dict[str, Any]) -> dict[str, Any] | None:
    """What is said between hello and quit; None for a conversation that no pod can hold, or that ends otherwise."""
    hello, *inner, leave, bye = conversation["lines"]
    text = json.dumps(inner)
    servers = set(re.findall(r'"(\$[A-Z0-9]+)"', text))
    refused = all(
        line.get("from", {}).get("type") == "error"
        for line in inner
        if not {"to", "text"} & set(line)
    )
    named = set() if refused else servers
    plain = set(conversation) == {"case", "lines"} and named <= OF_THE_POD | BESIDE
    timely = "$REFUSING" not in named or not named & {"$DROPPING", "$SILENT"}
    short = len(text) <= LONGEST and text.count('"give_up_ms"') <= MOST_ATTEMPTS
    small = not any(f'"{word}"' in text for word in LARGE)
    whole = all(line.get("text", "\n").endswith("\n") and "end" not in line for line in inner)
    alone = conversation["case"] == ALONE
    usual = (
        leave == {"to": QUIT} and bye.get("from", {}).get("reason") == "quit" and "from" in hello
    )
    if alone or not (plain and timely and short and small and whole and usual and inner):
        return None
    beside = {"beside": True} if named & BESIDE else {}
    return {
        "case": conversation["case"],
        **beside,
        "lines": _for_pods(inner, servers - named - OF_THE_POD),
    }


def _for_pods(document: Any, unused: set[str]) -> Any:
    """With a pod's own name, patience, the servers' address, and any port where ``unused`` servers are only named."""
    if isinstance(document, list):
        return [_for_pods(value, unused) for value in document]
    if isinstance(document, dict):
        made = {key: _for_pods(value, unused) for key, value in document.items()}
        port = made.get("port")
        if isinstance(port, str) and port in BESIDE:
            made["host"] = "$HOST"
        ends_by_itself = (
            port in ("$REFUSING", "$RESETTING", "$CLOSING") or made.get("give_up_ms") == 2000
        )
        if (
            isinstance(made.get("give_up_ms"), int)
            and str(port).startswith("$")
            and port != "$ECHO"
            and ends_by_itself
        ):
            made["give_up_ms"] = PATIENT_MS
        return made
    if isinstance(document, str):
        return "$ECHO" if document in unused else IDENTITY.get(document, document)
    return document


def _renamed(document: Any, number: str) -> Any:
    """With streams of names that no other conversation with the same agent has."""
    if isinstance(document, list):
        return [_renamed(value, number) for value in document]
    if isinstance(document, dict):
        made = {key: _renamed(value, number) for key, value in document.items()}
        return made | (
            {"stream": made["stream"] + number} if made.get("stream") in ("a", "A") else {}
        )
    return document


if __name__ == "__main__":
    PACKAGED.write_text(packaged())
