# SPDX-License-Identifier: Apache-2.0
"""A stream agent's limits, and the events that it reports by itself: on loopback, both programs and
the lab's stand-in."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.contract.loopback import reset, serve
from tests.contract.processes import quiet
from tests.contract.programs import PAIRS, PATIENT, STALLING, STREAM_AGENTS, TIMES, options
from tests.contract.relay import relay

SLOWER = {"every_ms": 100, "stall_ms": 60_000, "give_up_ms": 20_000}
"""No end of it is stalled or gives up where the machine is busy."""


def peer() -> tuple[socket.socket, int]:
    one = socket.create_server(("127.0.0.1", 0), backlog=512)
    return one, one.getsockname()[1]


def opens(streamer: Any, port: int, name: str = "a", **more: Any) -> None:
    streamer.say(
        {
            "type": "stream-open",
            "batch": name,
            "stream": name,
            "host": "127.0.0.1",
            "port": port,
            **SLOWER,
            **more,
        }
    )


def listens(streamer: Any, **more: Any) -> int:
    return int(streamer.ask("stream-listen", **{"port": 0, **PATIENT, **more})["port"])


def report(streamer: Any, name: str = "a") -> dict[str, Any]:
    ends: list[dict[str, Any]] = streamer.ask("stream-report", stream=name)["ends"]
    (end,) = ends
    return end


def settles(streamer: Any, verdict: str, name: str = "a", within: float = 60) -> dict[str, Any]:
    deadline = time.monotonic() + within
    while True:
        ends: list[dict[str, Any]] = streamer.ask("stream-report", stream=name)["ends"]
        if ends and ends[0]["verdict"] == verdict:
            return ends[0]
        assert time.monotonic() < deadline, ends
        time.sleep(0.02)


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


# --- watching -----------------------------------------------------------------------------------------------------


def heard_events(streamer: Any, count: int, within: float = 60.0) -> list[dict[str, Any]]:
    got = [item for item in streamer.aside if item["type"] == "event"]
    streamer.aside = []
    while len(got) < count:
        document = streamer.hear(skip=("beat", "result"), within=within)
        assert document["type"] == "event"
        got.append(document)
    return got


@pytest.mark.parametrize("kinds", PAIRS, ids="-to-".join)
def test_events_are_told_in_order_as_they_happen(
    kinds: tuple[str, str], converse: Callable[..., Any]
) -> None:
    opener, acceptor = (converse(*STREAM_AGENTS[kind]) for kind in kinds)
    for program in (opener, acceptor):
        program.hear()
        assert program.ask("stream-watch", stream="s1")["ends"] == []
    with relay(listens(acceptor, **STALLING)) as between:
        opener.say(
            {
                "type": "stream-open",
                "batch": "o",
                "stream": "s1",
                "host": "127.0.0.1",
                "port": between.port,
                "give_up_ms": 3000,
                **STALLING,
            }
        )
        assert opener.hear()["ends"][0]["verdict"] == "SURVIVED"
        between.dead = True
        between.silence()
        one = heard_events(opener, 3)  # opened, stalled, tried
        between.silence(False)
        one += list(heard_events(opener, 1))
        while one[-1]["event"] == "tried":
            one += heard_events(opener, 1)
        two = heard_events(acceptor, 3)
        between.dead = False
        between.reset("opened")
        one += heard_events(opener, 2)
        assert opener.ask("stream-report", stream="s1")["ends"][0]["events"] == [
            {
                key: value
                for key, value in event.items()
                if key not in ("type", "up_ms", "stream", "side")
            }
            for event in one
        ]
    words = [event["event"] for event in one]
    assert [word for word in words if word != "tried"] == [
        "opened",
        "stalled",
        "resumed",
        "ended",
        "recovered",
    ]
    assert [event["event"] for event in two] == ["opened", "stalled", "resumed"]
    for events, side in ((one, "opened"), (two, "accepted")):
        assert {(event["stream"], event["side"]) for event in events} == {("s1", side)}
        assert [event["at_ms"] for event in events] == sorted(event["at_ms"] for event in events)
        late = [event["up_ms"] - event["at_ms"] for event in events]
        assert all(0 <= item < 1000 for item in late), f"told at once: {late}"
        assert (events[0]["sent"], events[0]["heard"]) == (0, 0)
        assert [event["heard"] for event in events] == sorted(event["heard"] for event in events)
        stalled, resumed = (
            next(event for event in events if event["event"] == word)
            for word in ("stalled", "resumed")
        )
        assert resumed["heard"] == stalled["heard"] + 1
        assert resumed["sent"] > stalled["sent"], "it went on sending"
        assert resumed["at_ms"] - events[0]["at_ms"] >= STALLING["stall_ms"]


@pytest.mark.parametrize("kinds", PAIRS, ids="-to-".join)
def test_closing_in_order_is_closed_at_the_other_end(
    kinds: tuple[str, str], converse: Callable[..., Any]
) -> None:
    opener, acceptor = (converse(*STREAM_AGENTS[kind]) for kind in kinds)
    for program in (opener, acceptor):
        program.hear()
    port = listens(acceptor)
    for number in range(20):
        name, (one, other) = f"s{number}", ((opener, acceptor), (acceptor, opener))[number % 2]
        opens(opener, port, name, every_ms=20 if number % 4 < 2 else 5000, stall_ms=10000)
        opener.hear()
        settles(acceptor, "SURVIVED", name)
        time.sleep(0.01 * (number % 5))
        assert one.ask("stream-close", stream=name)["ends"][0]["verdict"] == "SURVIVED"
        settles(other, "CLOSED", name)


def test_watching_all_and_the_event_before_the_result(streamer: Any) -> None:
    assert streamer.ask("stream-watch")["ends"] == []
    opens(streamer, 1, "x")
    assert streamer.hear(skip=())["event"] == "ended"
    assert streamer.hear(skip=())["ends"][0]["verdict"] == "REFUSED"
    server, port = peer()
    opens(streamer, port, "y")
    one = server.accept()[0]
    one.sendall(b"1\n2\n")
    event, result = streamer.hear(skip=()), streamer.hear(skip=())
    assert (event["event"], result["ends"][0]["stream"], result["ends"][0]["heard"]) == (
        "opened",
        "y",
        1,
    )
    answer = streamer.ask("stream-watch", stream="y")
    assert answer["ends"][0]["heard"] == 2, "what was before is in the answer"
    streamer.say({"type": "stream-close", "batch": "c", "stream": "y", "how": "rst"})
    event, result = streamer.hear(skip=()), streamer.hear(skip=())
    assert (event["event"], event["detail"], event["heard"]) == ("ended", "ABORTED as told", 2)
    assert result["ends"][0]["verdict"] == "ABORTED"


def test_nothing_is_told_that_nobody_watches(streamer: Any) -> None:
    assert streamer.ask("stream-watch", stream="X")["ends"] == []
    opens(streamer, 1, "x")
    assert streamer.hear(skip=())["type"] == "result"


# --- time ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [0.25, 0.45, 1.2])
def test_a_program_without_a_processor_calls_nothing_late_that_came_in_time(
    streamer: Any, stop: float
) -> None:
    """Heartbeats come each 50 ms all the while; the program is stopped across the stall time."""
    port = listens(streamer, every_ms=50, stall_ms=200)
    streamer.ask("stream-watch")
    over = threading.Event()
    sent: list[float] = []
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.sendall(b"stream a\n")

        def beat() -> None:
            while not over.is_set():
                one.sendall(b"%d\n" % (len(sent) + 1))
                sent.append(time.monotonic())
                time.sleep(0.05)

        thread = threading.Thread(target=beat)
        thread.start()
        for _ in range(8):
            time.sleep(0.3)
            streamer.program.signal(signal.SIGSTOP)
            time.sleep(stop)
            streamer.program.signal(signal.SIGCONT)
        time.sleep(0.3)
        end = report(streamer)
        over.set()
        thread.join()
    gaps = sum(later - before > 0.15 for before, later in pairwise(sent))
    """Where this process had no processor either, heartbeats were late indeed."""
    events = [event["event"] for event in end["events"]]
    assert events[0] == "opened"
    assert events.count("stalled") <= gaps, (events, sent)
    assert end["verdict"] == "SURVIVED" or gaps


def test_it_does_nothing_while_nothing_is_due(streamer: Any) -> None:
    quiet(streamer.program)


def test_200_streams_are_opened_and_kept(streamer: Any, converse: Callable[..., Any]) -> None:
    other = converse(*STREAM_AGENTS["python"])
    other.hear()
    port = listens(other, every_ms=250, stall_ms=10000)
    for number in range(200):
        opens(streamer, port, f"s{number}", every_ms=250, stall_ms=10000, give_up_ms=20000)
    for _ in range(200):
        assert streamer.hear()["ends"][0]["verdict"] == "SURVIVED"
    before = {end["stream"]: end["sent"] for end in streamer.ask("stream-report")["ends"]}
    begun = streamer.up
    time.sleep(3)
    ends = streamer.ask("stream-report")["ends"]
    due = (streamer.up - begun) / 250
    """Heartbeats by the agent's own clock."""
    assert {(end["verdict"], len(end["events"])) for end in ends} == {("SURVIVED", 1)}
    assert all(0 < end["sent"] - before[end["stream"]] <= due + 2 for end in ends)


def test_the_end_of_the_input_ends_it(streamer: Any) -> None:
    streamer.process.stdin.close()
    assert streamer.hear()["reason"] == "end of input"
    assert streamer.process.wait(60) == 0


@pytest.mark.parametrize("kind", STREAM_AGENTS)
def test_it_beats_and_leaves_by_itself(kind: str, converse: Callable[..., Any]) -> None:
    program = converse(*options(STREAM_AGENTS[kind], beat=0.05, idle=0.5))
    program.hear()
    assert program.hear(skip=())["type"] == "beat"
    assert program.hear()["reason"] == "idle"
    assert program.process.wait(60) == 0
