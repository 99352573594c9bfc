# SPDX-License-Identifier: Apache-2.0
"""Golden conversations: the lines that are sent to a program, and the comparison of its answers
with the example."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conformance.probe.golden import differs, filled

GOLDEN = Path(__file__).with_name("golden")


def conversations(name: str) -> list[dict[str, Any]]:
    """Return the conversations of one file."""
    return [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]


def hear(conversation: dict[str, Any], line: dict[str, Any], program: Any) -> None:
    skip = conversation.get("skip", ["beat"])
    if "results" in line:  # the results may be spread over any number of lines
        wanted = line["results"]
        found: Any = {
            "batch": wanted["batch"],
            "results": program.whole(wanted["batch"], skip=skip),
        }
        found["results"].sort(key=lambda result: result["id"])
    else:
        wanted = line["from"]
        found = program.hear(skip=[] if wanted["type"] == "beat" else skip)
    problem = differs(wanted, found)
    assert not problem, f"{problem}\n{json.dumps(found)[:2000]}"
    for result in found.get("results", []):
        assert not [field for field in conversation.get("absent", []) if field in result]
        for field in conversation.get("exact", []):
            assert result[field] == wanted["results"][0][field]


QUIT = {"type": "quit"}


def can_share(conversation: dict[str, Any]) -> bool:
    """Return whether a conversation can run in a shared program. It must begin with hello, end with
    quit and bye, contain neither in between, and watch only its own streams."""
    hello, *inner, leave, bye = conversation["lines"]
    usual = "from" in hello and leave == {"to": QUIT} and bye.get("from", {}).get("type") == "bye"
    goes_on = all(
        "end" not in line and line.get("text", "\n").endswith("\n") and line.get("to") != QUIT
        for line in inner
    )
    watches_all = any(
        line.get("to", {}).get("type") == "stream-watch" and "stream" not in line["to"]
        for line in inner
    )
    return bool(inner) and usual and goes_on and not watches_all


def renamed(document: Any, more: str) -> Any:
    """Return the conversation with other names of streams, so that it can follow an earlier
    conversation."""
    if isinstance(document, list):
        return [renamed(value, more) for value in document]
    if isinstance(document, dict):
        made = {key: renamed(value, more) for key, value in document.items()}
        names = made.get("stream") in ("a", "A")
        return made | ({"stream": made["stream"] + more} if names else {})
    return document


def carry_on(conversation: dict[str, Any], ports: dict[str, int], program: Any) -> None:
    """Hold the part between hello and goodbye, with a program that has held other conversations
    before."""
    carry_out_lines({**conversation, "lines": conversation["lines"][1:-2]}, ports, program)


def carry_out(conversation: dict[str, Any], ports: dict[str, int], program: Any) -> None:
    """Hold the whole conversation, to the program's end."""
    carry_out_lines(conversation, ports, program)
    assert program.end() == 0


def carry_out_lines(conversation: dict[str, Any], ports: dict[str, int], program: Any) -> None:
    for line in conversation["lines"]:
        if "to" in line:
            program.say(filled(line["to"], ports))
        elif "text" in line:
            text = line["text"]
            for name, port in ports.items():
                text = text.replace(f'"{name}"', str(port))
            program.write(text.encode())
        elif "end" in line:
            program.process.stdin.close()
        else:
            hear(conversation, filled(line, ports), program)
