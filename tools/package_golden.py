"""Write the golden conversations that a run holds with its agents: those that need no server beside the agent.

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


def packaged() -> str:
    """The text of the packaged file: one conversation a line, without hello and farewell, which all of them share."""
    found = [made for line in ALL.read_text().splitlines() if (made := _inner(json.loads(line)))]
    return "[\n" + ",\n".join(json.dumps(item, separators=(",", ":")) for item in found) + "\n]\n"


def _inner(conversation: dict[str, Any]) -> dict[str, Any] | None:
    """What is said between hello and quit; None for a conversation that needs a server, or ends otherwise."""
    hello, *inner, leave, bye = conversation["lines"]
    plain = set(conversation) == {"case", "lines"} and not re.search(r'"\$[A-Z0-9]+"', json.dumps(inner))
    whole = all(line.get("text", "\n").endswith("\n") and "end" not in line for line in inner)
    usual = leave == {"to": QUIT} and bye.get("from", {}).get("reason") == "quit" and "from" in hello
    return {"case": conversation["case"], "lines": inner} if plain and whole and usual and inner else None


if __name__ == "__main__":
    PACKAGED.write_text(packaged())
