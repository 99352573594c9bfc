# SPDX-License-Identifier: Apache-2.0
"""A stream agent's limits, and the events that it reports by itself: on loopback, both programs and
the lab's stand-in."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.loopback import reset, serve
from tests.contract.programs import STREAM_AGENTS, TIMES
from tests.contract.stream_peers import listens, opens, peer, report, settles


def lives(streamer: Any) -> None:
    streamer.say({"type": "ping"})
    assert streamer.hear(skip=("event",))["type"] == "beat"


# --- what peers say -----------------------------------------------------------------------------------------------


GARBAGE = [
    b"\xb9",
    b"\xb2",
    b"\xb3",
    b"01",
    b"1\r",
    b" 1",
    b"+1",
    b"",
    b"\xff\x00",
    b"2",
    b"0",
    b"-1",
    b"1.0",
    b"9" * 4000,
    "\u0661".encode(),
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda one: repr(one[:8]))
@pytest.mark.parametrize("side", ["opened", "accepted"])
def test_a_garbled_heartbeat_is_broken_and_the_agent_lives(
    shared_streamer: Any, side: str, garbage: bytes
) -> None:
    if side == "accepted":
        one = socket.create_connection(("127.0.0.1", listens(shared_streamer)))
        one.sendall(b"stream a\n" + garbage + b"\n")
    else:
        server, port = peer()
        opens(shared_streamer, port)
        one = server.accept()[0]
        one.sendall(garbage + b"\n")
        assert shared_streamer.hear()["ends"][0]["verdict"] == "BROKEN"
    assert settles(shared_streamer, "BROKEN")["side"] == side
    lives(shared_streamer)
    one.close()


@pytest.mark.parametrize(
    "first",
    [
        b"stream a\nb\n",
        b"stream a\r\n",
        b"stream \xb9\n",
        b"stream " + b"a" * 65 + b"\n",
        b"Stream a\n",
        b"stream\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"\n",
        b"x" * 5000,
        b"stream  a\n",
        b"again \n",
        b"stream \xe2\x84\xaa\n",
    ],
    ids=lambda one: repr(one[:12]),
)
def test_a_stranger_is_no_stream(shared_streamer: Any, first: bytes) -> None:
    port = listens(shared_streamer)
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.settimeout(60)
        one.sendall(first)
        if (
            first == b"stream a\nb\n"
        ):  # a name ends at the line's end; what follows is a heartbeat, and a garbled one
            settles(shared_streamer, "BROKEN")
            return
        with contextlib.suppress(ConnectionResetError):
            assert one.recv(10) == b""
    assert shared_streamer.ask("stream-report")["ends"] == []


def test_again_is_answered_and_is_no_stream(shared_streamer: Any) -> None:
    with socket.create_connection(("127.0.0.1", listens(shared_streamer))) as one:
        one.sendall(b"again a\n")
        one.settimeout(60)
        assert one.recv(10) == b"1\n"
    assert shared_streamer.ask("stream-report")["ends"] == []


def test_a_new_connection_that_says_something_else_is_no_recovery(shared_streamer: Any) -> None:
    server, port = peer()
    opens(shared_streamer, port)
    one = server.accept()[0]
    one.sendall(b"1\n")
    shared_streamer.hear()
    reset(one)
    for said in (b"HTTP/1.0 400\n", b"1\n"):
        two = server.accept()[0]
        assert two.recv(100) == b"again a\n"
        two.sendall(said)
    deadline = time.monotonic() + 60
    while (end := report(shared_streamer))["recovered_ms"] is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert [(event["event"], event["detail"][:6]) for event in end["events"]][2:] == [
        ("tried", "BROKEN"),
        ("recovered", "a new "),
    ]


def test_strangers_are_bounded(streamer: Any) -> None:
    port, held = listens(streamer), []
    for _ in range(600):
        held.append(socket.create_connection(("127.0.0.1", port)))
    held[0].settimeout(60)
    with pytest.raises(ConnectionResetError):
        held[0].recv(1)
    held[-1].sendall(b"stream a\n")
    settles(streamer, "SURVIVED")
    for sock in held:
        sock.close()


@pytest.mark.parametrize(
    "when", ["at once", "after the first line", "after a heartbeat", "with a pending send"]
)
def test_300_resets_of_each_kind(streamer: Any, when: str) -> None:
    server, port = peer()

    def handle(one: socket.socket) -> None:
        if when != "at once":
            one.recv(100)
        if when in ("after a heartbeat", "with a pending send"):
            one.sendall(b"1\n")
        if when == "with a pending send":
            time.sleep(0.01)
        reset(one)

    serve(server, handle)
    seen: dict[Any, Any] = {}
    every = 5 if when == "with a pending send" else 60000
    for number in range(300):
        opens(streamer, port, f"s{number}", every_ms=every, stall_ms=60000)
        seen.setdefault(streamer.hear()["ends"][0]["verdict"], []).append(number)
    if when in ("after a heartbeat", "with a pending send"):
        deadline = time.monotonic() + 60
        while True:
            verdicts = {end["verdict"] for end in streamer.ask("stream-report")["ends"]}
            if verdicts == {"RESET"}:
                break
            assert time.monotonic() < deadline, verdicts
            time.sleep(0.1)
    else:
        assert set(seen) == {"RESET"}, {word: len(numbers) for word, numbers in seen.items()}
    streamer.ask("stream-close")
    lives(streamer)
    server.close()


def test_300_resets_of_accepted_connections(streamer: Any) -> None:
    port = listens(streamer)
    for number in range(300):
        one = socket.create_connection(("127.0.0.1", port))
        if number % 3:
            one.sendall(b"stream s%d\n" % number)
        if number % 3 == 2:
            one.recv(10)
        reset(one)
    deadline = time.monotonic() + 60
    while True:
        found = {end["verdict"] for end in streamer.ask("stream-report")["ends"]}
        if found <= {"RESET"}:
            break
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    lives(streamer)


def test_a_peer_that_reads_nothing_does_not_stop_the_stream_beside_it(streamer: Any) -> None:
    full = socket.socket()
    full.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
    full.bind(("127.0.0.1", 0))
    full.listen(5)
    opens(streamer, full.getsockname()[1], "full", every_ms=1, stall_ms=60000)
    held = full.accept()[0]
    held.sendall(b"1\n")
    streamer.hear()
    server, port = peer()
    opens(streamer, port, "beside", every_ms=50, stall_ms=60000)
    other = server.accept()[0]
    other.sendall(b"1\n")
    streamer.hear()
    other.settimeout(60)
    heard = b""
    while heard.count(b"\n") < 80:  # a peer's buffers are full long before these are through
        more = other.recv(100)
        assert more
        heard += more
    assert report(streamer, "full")["verdict"] == "SURVIVED"
    lives(streamer)


# --- lines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"5",
        b'"x"',
        b"null",
        b"\xff\xfe",
        b"[" * 100000,
        b'{"type":' * 3000,
        b'{"type":"stream-listen","batch":"b","port":-1,"every_ms":1,"stall_ms":1}',
        b'{"type":"stream-listen","batch":"b","port":0,"every_ms":NaN,"stall_ms":1}',
        b'{"type":"stream-listen","batch":"b","port":0,"every_ms":1e400,"stall_ms":1}',
        b'{"type":"stream-listen","batch":"b","port":'
        + b"9" * 5000
        + b',"every_ms":1,"stall_ms":1}',
        b'{"type":null}',
        b'{"type":["quit"]}',
        b'{"TYPE":"quit"}',
        b'{"type":"quit "}',
        b'{"type":"stream-report","BATCH":"b"}',
    ],
    ids=lambda one: repr(one[:40]),
)
def test_a_line_that_is_none_is_one_error_line(shared_streamer: Any, line: bytes) -> None:
    shared_streamer.write(line + b"\n")
    error = shared_streamer.hear()
    assert error["type"] == "error"
    assert error["message"]
    lives(shared_streamer)


@pytest.mark.parametrize("kind", STREAM_AGENTS)
def test_every_line_says_when(kind: str, converse: Callable[..., Any]) -> None:
    program = converse(*STREAM_AGENTS[kind])
    lines = [program.hear()]
    for document in (
        {"type": "ping"},
        {"type": "dance"},
        {"type": "stream-watch", "batch": 1},
        {"type": "quit"},
    ):
        program.say(document)
        lines.append(program.hear(skip=()))
    assert [line["type"] for line in lines] == ["hello", "beat", "error", "result", "bye"]
    times = [line["up_ms"] for line in lines]
    assert times == sorted(times)
    assert all(isinstance(item, int | float) for item in times)


def test_a_port_that_is_taken_is_said_and_another_can_be_had(
    streamer: Any, converse: Callable[..., Any]
) -> None:
    holder = converse(*STREAM_AGENTS["python"])
    holder.hear()
    port = listens(holder)
    error = streamer.ask("stream-listen", port=port, **TIMES)
    assert error["type"] == "error"
    assert error["message"].startswith(f"address already in use: port {port} ")
    assert ("ss -ltnp" if streamer.argv[-1].endswith(".py") else "netstat -ano") in error["message"]
    assert listens(streamer) not in (0, port)
    holder.say({"type": "quit"})
    holder.process.wait(60)
    assert streamer.ask("stream-listen", port=port, **TIMES)["port"] == port
    assert streamer.ask("stream-listen", port=port, every_ms=5, stall_ms=50)["port"] == port, (
        "only the times change"
    )
