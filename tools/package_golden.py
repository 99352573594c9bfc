# SPDX-License-Identifier: Apache-2.0
"""Write the golden conversations that are possible in pods, so that a run can hold them with its
agents.

Most conversations use only the pod's own echo server and a closed port; the others use
``golden_server.py`` in a Linux pod. These conversations are left out: those in which the agent
ends; those with IPv6; those with too many characters or connections for an exec; those that a
network between two pods may disturb (datagrams and bodies of many packets); and those that depend
on the time of a refusal, which Windows reports only after seconds.

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
"""The servers of ``golden_server.py``."""
IDENTITY = {"ns/echo": "$POD", "w1": "$NODE"}
"""Map the names that the echo server of the contract tests gives itself to placeholders for a pod's
own names."""
LONGEST = 20_000
"""The maximum number of characters of a conversation."""
MOST_ATTEMPTS = 100
"""The maximum number of attempts in one conversation."""
PATIENT_MS = 10_000
"""A give-up time for Windows, which repeats a refused connection for 1 to 3 s, and whose programs
are slow at first."""
LARGE = {"/head-70000", "/body-1000000", "huge.test."}
"""Answers of many packets, some of which a wrong MTU loses."""
ALONE = "watching all streams"
"""A conversation that needs an agent of its own, because it reports all streams, including those of
other conversations."""


def packaged() -> str:
    """Return the text of the packaged file: one conversation per line, without the hello and the
    farewell that all share."""
    agent = [made for item in _read("conversations") if (made := _inner(item))]
    streams = [made for item in _read("streams") if (made := _inner(item))]
    streams.sort(key=_leaves_streams)
    named = [_renamed(item, str(number)) for number, item in enumerate(streams)]
    return f'{{"agent": [\n{_lines(agent)}\n],\n"stream agent": [\n{_lines(named)}\n]}}\n'


def _leaves_streams(conversation: dict[str, Any]) -> bool:
    """Return whether the agent still has streams of this conversation at its end. A later report of
    all streams would name them."""
    said = json.dumps(conversation)
    return '"ends": [{' in said and '"stream-close"' not in said


def _read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / f"{name}.jsonl").read_text().splitlines()]


def _lines(conversations: list[dict[str, Any]]) -> str:
    return ",\n".join(json.dumps(item, separators=(",", ":")) for item in conversations)


def _inner(conversation: dict[str, Any]) -> dict[str, Any] | None:
    """Return the part between hello and quit; None if no pod can hold the conversation, or if it
    ends in another way."""
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
    """Return the conversation for pods: with the pod's own name, longer time-outs and the servers'
    address. A server in ``unused`` is only named and never reached, so the echo server stands for
    it."""
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
    """Return the conversation with names of streams that no other conversation with the same agent
    uses."""
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
