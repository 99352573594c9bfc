# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the contract tests: the golden servers, the programs, and conversations with one of
them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.contract import loopback
from tests.contract.processes import Process
from tests.contract.programs import AGENTS, FAILED, STREAM_AGENTS, options, startable

MARK = "@@PROBE@@ "


@pytest.fixture(params=["python", "pwsh"])
def agent(request: pytest.FixtureRequest) -> list[str]:
    """Return the command that starts each of the two real programs."""
    return startable(AGENTS[request.param])


@pytest.fixture(params=AGENTS)
def any_agent(request: pytest.FixtureRequest) -> list[str]:
    """Return the command that starts each program, or the lab's stand-in for the Windows
    program."""
    return startable(AGENTS[request.param])


@pytest.fixture(params=STREAM_AGENTS)
def streamer(request: pytest.FixtureRequest, converse: Callable[..., Any]) -> Any:
    """Return a stream agent after its hello."""
    program = converse(*STREAM_AGENTS[request.param])
    hello = program.hear()
    assert (hello["type"], hello["protocol"]) == ("hello", 2)
    return program


@pytest.fixture(params=STREAM_AGENTS)
def shared_streamer(request: pytest.FixtureRequest, share: Callable[..., Any]) -> Any:
    """Return a stream agent that several tests use. A test neither ends it nor watches streams of
    other tests."""
    return share(STREAM_AGENTS[request.param])


@pytest.fixture(scope="session")
def ports() -> Iterator[dict[str, int]]:
    """Map golden names to ports of loopback."""
    with loopback.servers() as found:
        yield found


class Conversation:
    """A running probe program, with its lines."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.argv = startable(argv)
        self.program = Process(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.process = self.program.popen
        """The started command, with its pipes and its end. Signals go to the program itself."""
        self.rest, self.lines = b"", list[bytes]()
        self.aside: list[dict[str, Any]] = []
        """Lines that were skipped."""
        self.left: dict[str, int] = {}
        self.up = 0.0

    def write(self, data: bytes) -> None:
        assert self.process.stdin
        view = memoryview(data)
        while view:
            view = view[os.write(self.process.stdin.fileno(), view) :]

    def say(self, document: Any) -> None:
        self.write(json.dumps(document).encode("ascii") + b"\n")

    def ask(self, kind: str, **more: Any) -> dict[str, Any]:
        """Send a line to a stream agent and return its answer."""
        self.say({"type": kind, "batch": "b", **more})
        return self.hear()

    def line(self, within: float) -> str:
        """Return the next line of any kind."""
        assert self.process.stdout
        due = time.monotonic() + within
        while not self.lines:
            assert select.select([self.process.stdout], [], [], max(0.0, due - time.monotonic()))[
                0
            ], f"the program wrote no line within {within} s"
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            assert data, f"the program ended: {self.rest!r}"
            *self.lines, self.rest = (self.rest + data).split(b"\n")
        return self.lines.pop(0).decode()

    def hear(
        self, *, skip: Sequence[str] = ("beat", "event"), within: float = 60.0
    ) -> dict[str, Any]:
        """Return the next protocol line of a type that is not skipped."""
        due = time.monotonic() + within
        while True:
            line = self.line(max(0.0, due - time.monotonic()))
            if line.startswith(MARK):
                assert not line.endswith("\r")
                document: dict[str, Any] = json.loads(line[len(MARK) :])
                self.check(document)
                if document["type"] not in skip:
                    return document
                self.aside.append(document)

    def check(self, document: dict[str, Any]) -> None:
        """Check the properties that every line has."""
        assert document["up_ms"] >= self.up, f"up_ms decreased: {document}"
        self.up = document["up_ms"]
        if document["type"] == "result":  # a stream agent's
            return
        for result in document.get("results", []):
            assert isinstance(result["ms"], (int, float)), result
            assert "detail" in result, result
            assert result["began_ms"] is None or 0 <= result["began_ms"] <= self.up, result
        if document["type"] == "results":
            left = document["left"] + len(document["results"])
            assert self.left.get(document["batch"], left) == left, (
                f"left does not decrease by the number of results: {document}"
            )
            assert document["results"] or document["left"] == 0
            self.left[document["batch"]] = document["left"]
            if document["left"] == 0:
                del self.left[document["batch"]]

    def whole(
        self, batch: str, *, skip: Sequence[str] = ("beat",), within: float = 60.0
    ) -> list[dict[str, Any]]:
        """Return all results of a batch, in the order in which the agent wrote them."""
        found: list[dict[str, Any]] = []
        while True:
            line = self.hear(skip=skip, within=within)
            assert line["type"] == "results", line
            assert line["batch"] == batch, line
            found += line["results"]
            if line["left"] == 0:
                return found

    @property
    def pid(self) -> int:
        return self.program.pid

    def cleared(self, *, streams: bool) -> bool:
        """Close all streams; return whether nothing else was under way."""
        empty = {"type": "batch", "attempts": []}
        self.say({**({"type": "stream-close"} if streams else empty), "batch": "clear"})
        self.say({"type": "ping"})
        try:
            answer, beat = self.hear(skip=("event",), within=60), self.hear(skip=(), within=60)
        except AssertionError:
            return False
        self.aside.clear()
        return answer.get("batch") == "clear" and beat.get("open") == 0 and not self.rest

    def end(self) -> int:
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(60)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record that a test failed, so that its shared programs are not used again."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(scope="session")
def kept() -> Iterator[dict[Any, Conversation]]:
    """Provide the programs that tests share."""
    programs: dict[Any, Conversation] = {}
    yield programs
    try:
        assert {program.end() for program in programs.values()} <= {0}
    finally:
        for program in programs.values():
            program.program.end()


@pytest.fixture
def share(
    request: pytest.FixtureRequest, kept: dict[Any, Conversation]
) -> Iterator[Callable[..., Conversation]]:
    """Return a program after its hello, if possible the program of the test before.

    Different values of ``role`` give different programs. After a test that failed, or that left
    something under way, the next test gets a new program.
    """
    used = set()

    def get(argv: Sequence[str], role: str = "") -> Conversation:
        key = (*argv, role)
        if key not in kept:
            kept[key] = Conversation(options(argv, beat=3600, idle=3600))
            assert kept[key].hear(within=60)["type"] == "hello"
        used.add(key)
        return kept[key]

    yield get
    for key in used:
        streams = any("stream" in Path(word).name for word in key)
        if request.node.stash.get(FAILED, False) or not kept[key].cleared(streams=streams):
            kept.pop(key).program.end()


@pytest.fixture
def converse() -> Iterator[Callable[..., Conversation]]:
    """Start programs; end them with the test."""
    begun: list[Conversation] = []

    def start(*argv: str) -> Conversation:
        begun.append(Conversation(argv))
        return begun[-1]

    yield start
    for conversation in begun:
        conversation.program.end()
