# SPDX-License-Identifier: Apache-2.0
"""Stream agents tell RST, FIN, silence and giving up apart, at whichever end they happen, as the document says.

Every test runs with the Linux program, with the lab's stand-in for the Windows one, and where there is a pwsh with that
itself at either end, over a relay on loopback that injects the error.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contract.programs import OTHER, PAIRS, STREAM_AGENTS, TIMES, startable
from tests.contract.relay import Relay, relay

HERE = Path(__file__).parent


@dataclass
class Stream:
    """A stream through the relay, and the agents of its ends."""

    programs: dict[str, Any]
    relay: Relay
    first: dict[str, Any]

    def ask(self, side: str, kind: str = "stream-report", **more: Any) -> dict[str, Any]:
        """What the agent of one side says of its end."""
        program = self.programs[side]
        program.say({"type": kind, "batch": "b", "stream": "s1", **more})
        (end,) = program.hear()["ends"]
        assert end["side"] == side
        found: dict[str, Any] = end
        return found

    def settles(
        self, side: str, verdict: str, done: Callable[[dict[str, Any]], bool] = lambda end: True
    ) -> dict[str, Any]:
        """The end's report once it says so."""
        deadline = time.monotonic() + 10
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


@pytest.fixture(params=PAIRS, ids="-to-".join)
def stream(request: pytest.FixtureRequest, converse: Callable[..., Any]) -> Iterator[Stream]:
    """An open stream."""
    opener, acceptor = (converse(*STREAM_AGENTS[name]) for name in request.param)
    for program in (opener, acceptor):
        program.hear()
    acceptor.say({"type": "stream-listen", "batch": "l", "port": 0, **TIMES})
    with ExitStack() as stack:
        between = stack.enter_context(relay(acceptor.hear()["port"]))
        opener.say(
            {"type": "stream-open", "batch": "o", "stream": "s1", "host": "127.0.0.1", "port": between.port,
             "give_up_ms": 400, **TIMES}
        )  # fmt: skip
        (first,) = opener.hear()["ends"]
        yield Stream({"opened": opener, "accepted": acceptor}, between, first)


def test_a_stream_that_nobody_touches_survives_at_both_ends(stream: Stream) -> None:
    assert (stream.first["verdict"], stream.first["heard"] >= 1, words(stream.first)) == (
        "SURVIVED",
        True,
        ["opened"],
    )
    for side in ("opened", "accepted"):
        end = stream.settles(side, "SURVIVED", lambda end: end["heard"] > 5 and end["sent"] > 5)
        assert words(end) == ["opened"]
        assert end["quiet_ms"] < TIMES["stall_ms"]
    assert stream.ask("opened")["recovery_tries"] == 0


@pytest.mark.parametrize("side", ["opened", "accepted"])
def test_a_reset_is_told_by_the_end_that_got_it_and_is_silence_at_the_other(
    stream: Stream, side: str
) -> None:
    stream.relay.reset(side)
    end = stream.settles(side, "RESET")
    assert (words(end)[:2], end["quiet_ms"]) == (["opened", "ended"], None)
    assert any(word in end["detail"] for word in ("ECONNRESET", "ConnectionReset/"))
    assert stream.settles(OTHER[side], "STALLED")["quiet_ms"] >= TIMES["stall_ms"]
    client = stream.settles("opened", "RESET" if side == "opened" else "STALLED", recovered)
    assert (client["recovery_tries"], words(client)[-1]) == (1, "recovered")


@pytest.mark.parametrize("side", ["opened", "accepted"])
def test_an_orderly_end_is_no_reset(stream: Stream, side: str) -> None:
    stream.relay.finish(side)
    assert "in order" in stream.settles(side, "CLOSED")["detail"]
    stream.settles(OTHER[side], "STALLED")


def test_silence_is_a_stall_at_both_ends_and_its_end_a_resumption(stream: Stream) -> None:
    stream.relay.dead = True
    stream.relay.silence()
    for side in ("opened", "accepted"):
        stream.settles(side, "STALLED")
    stream.relay.silence(False)
    for side in ("opened", "accepted"):
        end = stream.settles(side, "SURVIVED", lambda end: "resumed" in words(end))
        assert [word for word in words(end) if word != "tried"] == ["opened", "stalled", "resumed"]


def test_recovery_is_tried_until_a_new_connection_works(stream: Stream) -> None:
    stream.relay.dead = True
    stream.relay.reset("opened")
    stream.settles("opened", "RESET", lambda end: "tried" in words(end))
    stream.relay.dead = False
    end = stream.settles("opened", "RESET", recovered)
    assert end["recovery_tries"] >= 2
    assert end["recovered_ms"] >= 400, "the first new connection was given up only after its time"


@pytest.mark.parametrize("side", ["opened", "accepted"])
def test_giving_up_is_told_by_the_end_that_did_and_is_a_reset_at_the_other(
    stream: Stream, side: str
) -> None:
    end = stream.ask(side, "stream-close", how="rst")
    assert (end["verdict"], end["detail"]) == ("ABORTED", "as told")
    stream.settles(OTHER[side], "RESET")


@pytest.mark.parametrize("side", ["opened", "accepted"])
def test_closing_says_how_it_was_and_forgets(stream: Stream, side: str) -> None:
    assert stream.ask(side, "stream-close")["verdict"] == "SURVIVED"
    stream.programs[side].say({"type": "stream-report", "batch": "again"})
    assert stream.programs[side].hear()["ends"] == []


def test_several_streams_of_one_agent_fare_each_on_its_own(stream: Stream) -> None:
    opener = stream.programs["opened"]
    for name in ("s2", "s3"):
        opener.say(
            {"type": "stream-open", "batch": name, "stream": name, "host": "127.0.0.1", "port": stream.relay.port,
             "give_up_ms": 400, **TIMES}
        )  # fmt: skip
    assert {opener.hear()["batch"] for _ in range(2)} == {"s2", "s3"}
    stream.relay.reset("opened")  # the first
    stream.settles("opened", "RESET")
    opener.say({"type": "stream-report", "batch": "all"})
    assert {end["stream"]: end["verdict"] for end in opener.hear()["ends"]} == {
        "s1": "RESET", "s2": "SURVIVED", "s3": "SURVIVED",
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
    streamer: Any, wrong: dict[str, Any]
) -> None:
    streamer.say({"batch": "b", **wrong})
    error = streamer.hear()
    assert (error["type"], error["batch"], bool(error["message"])) == ("error", "b", True)
    streamer.say({"type": "ping"})
    assert streamer.hear(skip=())["open"] == 0
    streamer.say({"type": "quit"})
    bye = streamer.hear()
    assert (bye["type"], bye["reason"]) == ("bye", "quit")
    assert streamer.end() == 0


def test_streams_end_with_their_agent(streamer: Any, converse: Callable[..., Any]) -> None:
    other = converse(*STREAM_AGENTS["python"])
    other.hear()
    streamer.say({"type": "stream-listen", "batch": "l", "port": 0, **TIMES})
    port = streamer.hear()["port"]
    other.say(
        {
            "type": "stream-open",
            "batch": "o",
            "stream": "s1",
            "host": "127.0.0.1",
            "port": port,
            "give_up_ms": 400,
            **TIMES,
        }
    )
    assert other.hear()["ends"][0]["verdict"] == "SURVIVED"
    streamer.say({"type": "quit"})
    streamer.hear()
    deadline = time.monotonic() + 5
    while True:
        other.say({"type": "stream-report", "batch": "r"})
        end = other.hear()["ends"][0]
        if end["verdict"] in ("CLOSED", "RESET"):  # a RST where heartbeats were unread
            return
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("programs", PAIRS, ids="-to-".join)
def test_a_system_that_gives_up_after_silence_is_told_by_its_end(programs: tuple[str, str]) -> None:
    alone = ["unshare", "--map-root-user", "--net"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("no network namespace of one's own on this machine")
    script = [
        sys.executable,
        str(HERE / "cut_off.py"),
        *(json.dumps(startable(STREAM_AGENTS[name])) for name in programs),
    ]
    done = subprocess.run([*alone, *script], capture_output=True, text=True, timeout=30, check=True)
    seen = json.loads(done.stdout)
    assert [item[-2:] for item in seen] == [["STALLED", "ABORTED"]] * 2


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
            agent.process.send_signal(signal.SIGSTOP)
            peer.sendall(b"1\n")
            time.sleep(0.6)
            agent.process.send_signal(signal.SIGCONT)
            (end,) = agent.hear()["ends"]
            assert (end["verdict"], words(end)) == ("SURVIVED", ["opened"])
