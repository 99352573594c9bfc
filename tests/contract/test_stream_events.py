# SPDX-License-Identifier: Apache-2.0
"""What a stream agent reports unasked: events in their order, on loopback."""

from __future__ import annotations

import itertools
import signal
import socket
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.contract.processes import quiet
from tests.contract.programs import PAIRS, STALLING, STREAM_AGENTS, options
from tests.contract.relay import relay
from tests.contract.stream_peers import listens, opens, peer, report, settles

NUMBERS = itertools.count()
"""Of streams between programs that tests share."""


@pytest.fixture
def stream() -> str:
    """Return a name that no other stream has."""
    return f"e{next(NUMBERS)}"


@pytest.fixture(params=PAIRS, ids="-to-".join)
def two_streamers(request: pytest.FixtureRequest, share: Callable[..., Any]) -> tuple[Any, Any]:
    """Return who opens streams and who accepts them; other tests speak to them before and after."""
    opener, acceptor = (
        share(STREAM_AGENTS[kind], role)
        for kind, role in zip(request.param, ("opened", "accepted"), strict=True)
    )
    return opener, acceptor


# --- watching -----------------------------------------------------------------------------------------------------


def heard_events(streamer: Any, count: int, within: float = 60.0) -> list[dict[str, Any]]:
    got = [item for item in streamer.aside if item["type"] == "event"]
    streamer.aside = []
    while len(got) < count:
        document = streamer.hear(skip=("beat", "result"), within=within)
        assert document["type"] == "event"
        got.append(document)
    return got


def test_events_are_told_in_order_as_they_happen(
    two_streamers: tuple[Any, Any], stream: str
) -> None:
    opener, acceptor = two_streamers
    for program in (opener, acceptor):
        assert program.ask("stream-watch", stream=stream)["ends"] == []
    with relay(listens(acceptor, **STALLING)) as between:
        opener.say(
            {
                "type": "stream-open",
                "batch": "o",
                "stream": stream,
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
        assert opener.ask("stream-report", stream=stream)["ends"][0]["events"] == [
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
        assert {(event["stream"], event["side"]) for event in events} == {(stream, side)}
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


def test_closing_in_order_is_closed_at_the_other_end(
    two_streamers: tuple[Any, Any], stream: str
) -> None:
    opener, acceptor = two_streamers
    port = listens(acceptor)
    for number in range(20):
        name, (one, other) = (
            f"{stream}-{number}",
            ((opener, acceptor), (acceptor, opener))[number % 2],
        )
        opens(opener, port, name, every_ms=20 if number % 4 < 2 else 5000, stall_ms=10000)
        opener.hear()
        settles(acceptor, "SURVIVED", name)
        time.sleep(0.01 * (number % 5))
        assert one.ask("stream-close", stream=name)["ends"][0]["verdict"] == "SURVIVED"
        settles(other, "CLOSED", name)


def test_watching_all_and_the_event_before_the_result(streamer: Any) -> None:
    assert streamer.ask("stream-watch")["ends"] == []
    opens(streamer, 1, "x")
    assert streamer.hear(skip=("beat",))["event"] == "ended"
    assert streamer.hear(skip=("beat",))["ends"][0]["verdict"] == "REFUSED"
    server, port = peer()
    opens(streamer, port, "y")
    one = server.accept()[0]
    one.sendall(b"1\n2\n")
    event, result = streamer.hear(skip=("beat",)), streamer.hear(skip=("beat",))
    assert (event["event"], result["ends"][0]["stream"], result["ends"][0]["heard"]) == (
        "opened",
        "y",
        1,
    )
    answer = streamer.ask("stream-watch", stream="y")
    assert answer["ends"][0]["heard"] == 2, "what was before is in the answer"
    streamer.say({"type": "stream-close", "batch": "c", "stream": "y", "how": "rst"})
    event, result = streamer.hear(skip=("beat",)), streamer.hear(skip=("beat",))
    assert (event["event"], event["detail"], event["heard"]) == ("ended", "ABORTED as told", 2)
    assert result["ends"][0]["verdict"] == "ABORTED"


def test_nothing_is_told_that_nobody_watches(streamer: Any) -> None:
    assert streamer.ask("stream-watch", stream="X")["ends"] == []
    opens(streamer, 1, "x")
    assert streamer.hear(skip=("beat",))["type"] == "result"


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
