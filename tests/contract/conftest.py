"""Fixtures of the contract tests: the golden servers, and conversations with a program."""

from __future__ import annotations

import importlib.util
import json
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

_spec = importlib.util.spec_from_file_location("golden_loopback", Path(__file__).with_name("loopback.py"))
assert _spec
assert _spec.loader
loopback = importlib.util.module_from_spec(_spec)
sys.modules["golden_loopback"] = loopback
_spec.loader.exec_module(loopback)

MARK = "@@PROBE@@ "


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    """Ports of 127.0.0.1 by their golden names."""
    with loopback.servers() as found:
        yield found


class Conversation:
    """A probe program under way, with its lines."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def say(self, document: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(document).encode("ascii") + b"\n")
        self.process.stdin.flush()

    def hear(self, *, skip: Sequence[str] = ("beat",), within: float = 20.0) -> dict[str, Any]:
        """The next protocol line whose type is not skipped."""
        assert self.process.stdout
        while True:
            assert select.select([self.process.stdout], [], [], within)[0], "the program said nothing"
            line = self.process.stdout.readline().decode()
            assert line.endswith("\n"), f"the program ended: {line!r}"
            assert not line.endswith("\r\n")
            if line.startswith(MARK):
                document: dict[str, Any] = json.loads(line[len(MARK) :])
                if document["type"] not in skip:
                    return document

    def end(self) -> int:
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(10)


@pytest.fixture
def converse() -> Iterator[Callable[..., Conversation]]:
    """Starts a program; ends it with the test."""
    begun: list[Conversation] = []

    def start(*argv: str) -> Conversation:
        begun.append(Conversation(argv))
        return begun[-1]

    yield start
    for one in begun:
        one.process.kill()
        one.process.wait(5)
        for pipe in (one.process.stdin, one.process.stdout):
            if pipe and not pipe.closed:
                pipe.close()
