"""The probe programs do what the protocol document says, shown by the golden conversations over real sockets."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).with_name("golden")
PROGRAMS = Path(__file__).parents[2] / "manifests" / "probes"
CONVERSATIONS = [json.loads(line) for line in (GOLDEN / "conversations.jsonl").read_text().splitlines()]


def filled(document: Any, ports: dict[str, int]) -> Any:
    """The document with port names replaced by ports."""
    if isinstance(document, dict):
        return {key: filled(value, ports) for key, value in document.items()}
    if isinstance(document, list):
        return [filled(value, ports) for value in document]
    return ports.get(document, document) if isinstance(document, str) else document


def differs(wanted: Any, found: Any, where: str = "line") -> str:
    """Where what was said is not what the example says; empty when it is."""
    if wanted == "*":
        return ""
    if isinstance(wanted, dict) and isinstance(found, dict):
        gaps = [key for key in wanted if key not in found]
        if gaps:
            return f"{where} lacks {gaps}"
        return next(filter(None, (differs(wanted[key], found[key], f"{where}.{key}") for key in wanted)), "")
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return next(filter(None, map(differs, wanted, found, [f"{where}[{n}]" for n in range(len(wanted))])), "")
    return "" if wanted == found else f"{where}: expected {wanted!r}, found {found!r}"


def carry_out(conversation: dict[str, Any], ports: dict[str, int], program: Any) -> None:
    for line in conversation["lines"]:
        if "to" in line:
            program.say(filled(line["to"], ports))
        else:
            wanted = line["from"]
            found = program.hear(skip=() if wanted["type"] == "beat" else ("beat",))
            problem = differs(wanted, found)
            assert not problem, f"{problem}\n{json.dumps(found)[:2000]}"
    assert program.end() == 0


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda one: one["case"])
def test_the_linux_agent_keeps_to_the_golden_conversation(
    conversation: dict[str, Any], ports: dict[str, int], converse: Callable[..., Any]
) -> None:
    carry_out(conversation, ports, converse(sys.executable, "-I", "-S", "-u", str(PROGRAMS / "agent.py")))


PWSH = shutil.which("pwsh")


@pytest.mark.skipif(PWSH is None, reason="no pwsh on the PATH: the Windows agent was not executed")
@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda one: one["case"])
def test_the_windows_agent_keeps_to_the_golden_conversation(
    conversation: dict[str, Any], ports: dict[str, int], converse: Callable[..., Any]
) -> None:
    script = str(PROGRAMS / "matrix-agent.ps1")
    carry_out(conversation, ports, converse(str(PWSH), "-NoLogo", "-NoProfile", "-NonInteractive", "-File", script))


def test_the_agent_says_the_hash_of_its_own_file(converse: Callable[..., Any]) -> None:
    hello = converse(sys.executable, str(PROGRAMS / "agent.py")).hear()
    assert hello["sha256"] == hashlib.sha256((PROGRAMS / "agent.py").read_bytes()).hexdigest()


def test_the_agent_runs_under_the_oldest_python_that_it_promises(converse: Callable[..., Any]) -> None:
    oldest = sorted(Path.home().glob(".pyenv/versions/3.8.*/bin/python"))
    if not oldest:
        pytest.skip("no Python 3.8 on this machine")
    program = converse(str(oldest[0]), "-I", "-S", str(PROGRAMS / "agent.py"))
    assert program.hear()["runtime"].startswith("Python 3.8")
    program.say({"type": "quit"})
    assert program.hear()["type"] == "bye"


def test_the_agent_beats_while_it_waits(converse: Callable[..., Any]) -> None:
    program = converse(sys.executable, str(PROGRAMS / "agent.py"), "--beat", "0.05")
    assert program.hear(skip=())["type"] == "hello"
    assert [program.hear(skip=())["type"] for _ in range(3)] == ["beat"] * 3


def test_the_agent_leaves_by_itself_when_nobody_asks(converse: Callable[..., Any]) -> None:
    program = converse(sys.executable, str(PROGRAMS / "agent.py"), "--idle", "0.1")
    assert program.hear()["type"] == "hello"
    assert program.hear() == {"type": "bye", "reason": "idle"}
    assert program.process.wait(5) == 0


def test_the_agent_finishes_what_it_began_when_its_input_ends(
    converse: Callable[..., Any], ports: dict[str, int]
) -> None:
    program = converse(sys.executable, str(PROGRAMS / "agent.py"))
    program.hear()
    spec = {"id": 0, "kind": "tcp", "give_up_ms": 200, "host": "127.0.0.1", "port": ports["$DROPPING"]}
    program.say({"type": "batch", "batch": "b", "attempts": [spec]})
    program.process.stdin.close()
    assert program.hear()["results"][0]["verdict"] == "TIMED_OUT"
    assert program.hear() == {"type": "bye", "reason": "end of input"}


def test_two_batches_may_be_under_way_and_the_quick_one_is_answered_first(
    converse: Callable[..., Any], ports: dict[str, int]
) -> None:
    program = converse(sys.executable, str(PROGRAMS / "agent.py"))
    program.hear()
    slow = {"id": 0, "kind": "tcp", "give_up_ms": 300, "host": "127.0.0.1", "port": ports["$DROPPING"]}
    program.say({"type": "batch", "batch": "slow", "attempts": [slow]})
    program.say({"type": "batch", "batch": "quick", "attempts": [{**slow, "port": ports["$REFUSING"]}]})
    assert [program.hear()["batch"] for _ in range(2)] == ["quick", "slow"]


def test_more_attempts_than_may_be_open_at_once_are_all_answered(
    converse: Callable[..., Any], ports: dict[str, int]
) -> None:
    program = converse(sys.executable, str(PROGRAMS / "agent.py"))
    program.hear()
    specs = [
        {"id": number, "kind": "tcp", "give_up_ms": 5000, "host": "127.0.0.1", "port": ports["$REFUSING"]}
        for number in range(1000)
    ]
    program.say({"type": "batch", "batch": "b", "attempts": specs})
    results = program.hear()["results"]
    assert [one["id"] for one in results] == list(range(1000))
    assert {one["verdict"] for one in results} == {"REFUSED"}
