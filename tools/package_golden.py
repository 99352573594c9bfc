"""Write the golden conversations that a run holds with its agents: those that a pod can hold with itself.

What they connect to is the pod's own echo server and a closed port.  Left out are those that need a server that drops,
resets, stays silent, resolves or answers oddly, IPv6, more characters than are worth their way through an exec, or a
thousand connections at once.

python tools/package_golden.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ALL = ROOT / "tests" / "contract" / "golden" / "conversations.jsonl"
PACKAGED = ROOT / "lib" / "conformance" / "probe" / "golden.json"
QUIT = {"type": "quit"}
IN_PODS = {"$ECHO", "$REFUSING"}
IDENTITY = {"ns/echo": "$POD", "w1": "$NODE"}
"""What the echo server of the contract tests calls itself, and what stands for a pod's own name."""
LONGEST = 20_000
"""Characters of a conversation."""
MOST_ATTEMPTS = 100
"""In one conversation."""
REFUSED_WITHIN_MS = 10_000
"""Windows tries a refused connection again, which takes 1 to 3 s."""


def packaged() -> str:
    """The text of the packaged file: one conversation a line, without hello and farewell, which all of them share."""
    found = [made for line in ALL.read_text().splitlines() if (made := _inner(json.loads(line)))]
    return "[\n" + ",\n".join(json.dumps(item, separators=(",", ":")) for item in found) + "\n]\n"


def _inner(conversation: dict[str, Any]) -> dict[str, Any] | None:
    """What is said between hello and quit; None for a conversation that no pod can hold, or that ends otherwise."""
    hello, *inner, leave, bye = conversation["lines"]
    text = json.dumps(inner)
    servers = set(re.findall(r'"(\$[A-Z0-9]+)"', text))
    refused = all(line.get("from", {}).get("type") == "error" for line in inner if not {"to", "text"} & set(line))
    plain = set(conversation) == {"case", "lines"} and (servers <= IN_PODS or refused)
    short = len(text) <= LONGEST and text.count('"give_up_ms"') <= MOST_ATTEMPTS
    whole = all(line.get("text", "\n").endswith("\n") and "end" not in line for line in inner)
    usual = leave == {"to": QUIT} and bye.get("from", {}).get("reason") == "quit" and "from" in hello
    if not (plain and short and whole and usual and inner):
        return None
    return {"case": conversation["case"], "lines": _for_pods(inner, servers - IN_PODS)}


def _for_pods(document: Any, unused: set[str]) -> Any:
    """With a pod's own name, patience with refusals, and any port where ``unused`` servers are only named."""
    if isinstance(document, list):
        return [_for_pods(value, unused) for value in document]
    if isinstance(document, dict):
        made = {key: _for_pods(value, unused) for key, value in document.items()}
        patient = made.get("port") == "$REFUSING" and isinstance(made.get("give_up_ms"), int)
        return made | ({"give_up_ms": REFUSED_WITHIN_MS} if patient else {})
    if isinstance(document, str):
        return "$ECHO" if document in unused else IDENTITY.get(document, document)
    return document


if __name__ == "__main__":
    PACKAGED.write_text(packaged())
