# SPDX-License-Identifier: Apache-2.0
"""Stream agents distinguish RST, FIN, silence and giving up, at whichever end these happen, as the
document says.

Every test runs with the Linux program and with the lab's stand-in for the Windows program; if there
is a pwsh, also with the Windows program itself at either end. A relay on loopback injects the
error.
"""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.contract.processes import completed
from tests.contract.programs import (
    OTHER,
    PAIRS,
    PATIENT,
    STALLING,
    STREAM_AGENTS,
    TIMES,
    startable,
)
from tests.contract.relay import Relay, relay

HERE = Path(__file__).parent


@dataclass
class Stream:
    """A stream through the relay, and the agents of its ends."""

    name: str
    programs: dict[str, Any]
    relay: Relay
    times: dict[str, int]
    first: dict[str, Any] = field(default_factory=dict)

    def open(self, name: str) -> dict[str, Any]:
        """What is answered to a stream's opening."""
        opener = self.programs["opened"]
        where = {"host": "127.0.0.1", "port": self.relay.port}
        opener.say({"type": "stream-open", "batch": name, "stream": name, **where, **self.times})
        answer = opener.hear()
        assert answer["batch"] == name
        (end,) = answer["ends"]
        found: dict[str, Any] = end
        return found

    def ask(self, side: str, kind: str = "stream-report", **more: Any) -> dict[str, Any]:
        """What the agent of one side says of its end."""
        program = self.programs[side]
        program.say({"type": kind, "batch": "b", "stream": self.name, **more})
        (end,) = program.hear()["ends"]
        assert end["side"] == side
        found: dict[str, Any] = end
        return found

    def settles(
        self, side: str, verdict: str, done: Callable[[dict[str, Any]], bool] = lambda end: True
    ) -> dict[str, Any]:
        """The end's report once it says so."""
        deadline = time.monotonic() + 60
        while True:
            end = self.ask(side)
            if end["verdict"] == verdict and done(end):
                return end
            assert time.monotonic() < deadline, end
            time.sleep(0.02)


def recovered(end: dict[str, Any]) -> bool:
    return end["recovered_ms"] is not None


def words(end: dict[str, Any]) -> list[str]:
    return [event["event"] for event in end["events"]]


NUMBERS = itertools.count()
"""Of streams between programs that tests share."""
GIVE_UP = 20_000
"""ms: whatever answers at all does so before."""


@pytest.fixture(params=PAIRS, ids="-to-".join)
def begin(
    request: pytest.FixtureRequest, share: Callable[..., Any]
) -> Iterator[Callable[..., Stream]]:
    """Open a stream with times of its own."""
    opener, acceptor = (
        share(STREAM_AGENTS[name], role)
        for name, role in zip(request.param, ("opened", "accepted"), strict=True)
    )
    with ExitStack() as stack:

        def begun(times: dict[str, int], give_up_ms: int = GIVE_UP) -> Stream:
            acceptor.say({"type": "stream-listen", "batch": "l", "port": 0, **times})
            between = stack.enter_context(relay(acceptor.hear()["port"]))
            stream = Stream(
                f"s{next(NUMBERS)}",
                {"opened": opener, "accepted": acceptor},
                between,
                {**times, "give_up_ms": give_up_ms},
            )
            stream.first = stream.open(stream.name)
            return stream

        yield begun


def test_a_stream_that_nobody_touches_survives_at_both_ends(begin: Callable[..., Stream]) -> None:
    stream = begin(PATIENT)
    assert (stream.first["verdict"], stream.first["heard"] >= 1, words(stream.first)) == (
        "SURVIVED",
        True,
        ["opened"],
    )
    for side in ("opened", "accepted"):
        end = stream.settles(side, "SURVIVED", lambda end: end["heard"] > 5 and end["sent"] > 5)
        assert words(end) == ["opened"]
        assert end["quiet_ms"] < PATIENT["stall_ms"]
    assert stream.ask("opened")["recovery_tries"] == 0


@pytest.mark.parametrize("side", ["opened", "accepted"])
def test_a_reset_is_told_by_the_end_that_got_it_and_is_silence_at_the_other(
    begin: Callable[..., Stream], side: str
) -> None:
    stream = begin(STALLING)
    stream.relay.reset(side)
    end = stream.settles(side, "RESET")
    assert (words(end)[:2], end["quiet_ms"]) == (["opened", "ended"], None)
    assert any(word in end["detail"] for word in ("ECONNRESET", "ConnectionReset/"))
    assert stream.settles(OTHER[side], "STALLED")["quiet_ms"] >= STALLING["stall_ms"]
    client = stream.settles("opened", "RESET" if side == "opened" else "STALLED", recovered)
    assert (client["recovery_tries"], words(client)[-1]) == (1, "recovered")


@pytest.mark.parametrize("side", ["opened", "accepted"])
def test_an_orderly_end_is_no_reset(begin: Callable[..., Stream], side: str) -> None:
    stream = begin(STALLING)
    stream.relay.finish(side)
    assert "in order" in stream.settles(side, "CLOSED")["detail"]
    stream.settles(OTHER[side], "STALLED")


def test_silence_is_a_stall_at_both_ends_and_its_end_a_resumption(
    begin: Callable[..., Stream],
) -> None:
    stream = begin(STALLING, give_up_ms=400)
    stream.relay.dead = True
    stream.relay.silence()
    for side in ("opened", "accepted"):
        stream.settles(side, "STALLED")
    stream.relay.silence(False)
    for side in ("opened", "accepted"):
        end = stream.settles(side, "SURVIVED", lambda end: "resumed" in words(end))
        assert [word for word in words(end) if word != "tried"] == ["opened", "stalled", "resumed"]


def test_recovery_is_tried_until_a_new_connection_works(begin: Callable[..., Stream]) -> None:
    stream = begin(PATIENT, give_up_ms=400)
    stream.relay.dead = True
    stream.relay.reset("opened")
    stream.settles("opened", "RESET", lambda end: "tried" in words(end))
    stream.relay.dead = False
    end = stream.settles("opened", "RESET", recovered)
    assert end["recovery_tries"] >= 2
    assert end["recovered_ms"] >= 400, "the first new connection was given up only after its time"


@pytest.mark.parametrize("side", ["opened", "accepted"])
def test_giving_up_is_told_by_the_end_that_did_and_is_a_reset_at_the_other(
    begin: Callable[..., Stream], side: str
) -> None:
    stream = begin(PATIENT)
    end = stream.ask(side, "stream-close", how="rst")
    assert (end["verdict"], end["detail"]) == ("ABORTED", "as told")
    stream.settles(OTHER[side], "RESET")


@pytest.mark.parametrize("side", ["opened", "accepted"])
def test_closing_says_how_it_was_and_forgets(begin: Callable[..., Stream], side: str) -> None:
    stream = begin(PATIENT)
    assert stream.ask(side, "stream-close")["verdict"] == "SURVIVED"
    stream.programs[side].say({"type": "stream-report", "batch": "again"})
    assert stream.programs[side].hear()["ends"] == []


def test_several_streams_of_one_agent_fare_each_on_its_own(begin: Callable[..., Stream]) -> None:
    stream = begin(PATIENT)
    others = [f"{stream.name}-{number}" for number in (2, 3)]
    for name in others:
        assert stream.open(name)["stream"] == name
    stream.relay.reset("opened")  # the first
    stream.settles("opened", "RESET")
    opener = stream.programs["opened"]
    opener.say({"type": "stream-report", "batch": "all"})
    assert {end["stream"]: end["verdict"] for end in opener.hear()["ends"]} == {
        stream.name: "RESET", others[0]: "SURVIVED", others[1]: "SURVIVED",
    }  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "dance"},
        {"type": "batch", "attempts": []},
        {
            "type": "stream-open",
            "stream": "a b",
            "host": "127.0.0.1",
            "port": 1,
            "give_up_ms": 1,
            **TIMES,
        },
        {
            "type": "stream-open",
            "stream": "s",
            "host": "some.name",
            "port": 1,
            "give_up_ms": 1,
            **TIMES,
        },
        {
            "type": "stream-open",
            "stream": "s",
            "host": "127.0.0.1",
            "port": 1,
            "give_up_ms": 0,
            **TIMES,
        },
        {"type": "stream-listen", "port": 0, "every_ms": 0, "stall_ms": 1},
        {"type": "stream-close", "how": "softly"},
    ],
    ids=lambda one: str(one)[:40],
)
def test_a_line_that_cannot_be_carried_out_is_an_error_and_the_agent_lives(
    shared_streamer: Any, wrong: dict[str, Any]
) -> None:
    shared_streamer.say({"batch": "b", **wrong})
    error = shared_streamer.hear()
    assert (error["type"], error["batch"], bool(error["message"])) == ("error", "b", True)
    shared_streamer.say({"type": "ping"})
    assert shared_streamer.hear(skip=())["open"] == 0


def test_quit_ends_it(streamer: Any) -> None:
    streamer.say({"type": "quit"})
    bye = streamer.hear()
    assert (bye["type"], bye["reason"]) == ("bye", "quit")
    assert streamer.end() == 0


def test_streams_end_with_their_agent(streamer: Any, converse: Callable[..., Any]) -> None:
    other = converse(*STREAM_AGENTS["python"])
    other.hear()
    streamer.say({"type": "stream-listen", "batch": "l", "port": 0, **PATIENT})
    port = streamer.hear()["port"]
    other.say(
        {
            "type": "stream-open",
            "batch": "o",
            "stream": "s1",
            "host": "127.0.0.1",
            "port": port,
            "give_up_ms": GIVE_UP,
            **PATIENT,
        }
    )
    assert other.hear()["ends"][0]["verdict"] == "SURVIVED"
    streamer.say({"type": "quit"})
    streamer.hear()
    deadline = time.monotonic() + 60
    while True:
        other.say({"type": "stream-report", "batch": "r"})
        end = other.hear()["ends"][0]
        if end["verdict"] in ("CLOSED", "RESET"):  # a RST where heartbeats were unread
            return
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def cut_off() -> Callable[[tuple[str, ...]], dict[str, list[list[str]]]]:
    """Open a stream between each two of the programs, cut all of them off, and return what each end
    said of it (cut_off.py): once for the same programs."""
    alone = ["unshare", "--map-root-user", "--net"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("no network namespace of one's own on this machine")

    @cache
    def told(names: tuple[str, ...]) -> dict[str, list[list[str]]]:
        programs = {name: startable(STREAM_AGENTS[name]) for name in names}
        script = [sys.executable, str(HERE / "cut_off.py"), json.dumps(programs)]
        done = completed([*alone, *script], within=240)
        assert done.returncode == 0, done.stderr
        found: dict[str, list[list[str]]] = json.loads(done.stdout)
        return found

    return told


@pytest.mark.parametrize("programs", PAIRS, ids="-to-".join)
def test_a_system_that_gives_up_after_silence_is_told_by_its_end(
    programs: tuple[str, str], cut_off: Callable[[tuple[str, ...]], dict[str, list[list[str]]]]
) -> None:
    without = tuple(name for name in STREAM_AGENTS if name != "pwsh")
    seen = cut_off(tuple(STREAM_AGENTS) if "pwsh" in programs else without)
    told = [[word for word in end if word != "tried"][-3:] for end in seen["-to-".join(programs)]]
    assert told == [["stalled", "ended", "ABORTED"]] * 2


@pytest.mark.parametrize("kind", STREAM_AGENTS)
def test_what_came_while_the_program_had_no_processor_came_in_time(
    kind: str, converse: Callable[..., Any]
) -> None:
    """The kernel has it; a deadline that passed meanwhile does not make it late."""
    agent = converse(*STREAM_AGENTS[kind])
    agent.hear()
    with socket.create_server(("127.0.0.1", 0)) as server:
        agent.say(
            {"type": "stream-open", "batch": "o", "stream": "s1", "host": "127.0.0.1", "port": server.getsockname()[1],
             "give_up_ms": 400, **TIMES}
        )  # fmt: skip
        peer, _ = server.accept()
        with peer:
            assert peer.recv(100) == b"stream s1\n"
            agent.program.signal(signal.SIGSTOP)
            peer.sendall(b"1\n")
            time.sleep(0.6)
            agent.program.signal(signal.SIGCONT)
            (end,) = agent.hear()["ends"]
            assert (end["verdict"], words(end)) == ("SURVIVED", ["opened"])
