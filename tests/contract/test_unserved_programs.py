# SPDX-License-Identifier: Apache-2.0
"""A PowerShell program whose thread pool gets no processor gives no verdict that contradicts its
peer's log.

The tests stop the thread that is notified of socket events. The program's loop and its clock go on.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contract.freezing import frozen
from tests.contract.loopback import reset
from tests.contract.programs import AGENTS, STREAM_AGENTS

TIMES = {"every_ms": 50, "stall_ms": 300, "give_up_ms": 300}


@pytest.fixture(params=["pwsh"])
def agent(request: pytest.FixtureRequest, converse: Callable[..., Any]) -> Any:
    program = converse(*AGENTS[request.param])
    program.hear()
    return program


@pytest.fixture(params=["pwsh"])
def streamer(request: pytest.FixtureRequest, converse: Callable[..., Any]) -> Any:
    program = converse(*STREAM_AGENTS[request.param])
    program.hear()
    return program


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as one:
        one.settimeout(10)
        yield one


def attempts(server: socket.socket, *kinds: str) -> list[dict[str, Any]]:
    port = server.getsockname()[1]
    return [
        {"id": n, "kind": kind, "give_up_ms": 300, "host": "127.0.0.1", "port": port, "query": "a."}
        for n, kind in enumerate(kinds)
    ]


def opens(streamer: Any, server: socket.socket, name: str = "a") -> None:
    where = {"host": "127.0.0.1", "port": server.getsockname()[1]}
    streamer.say({"type": "stream-open", "batch": name, "stream": name, **where, **TIMES})


def unserved(detail: str) -> int:
    """The milliseconds that a text names."""
    words = detail.removeprefix("BROKEN ").split()
    assert " ".join(words[:6]) == "this program was not served for", detail
    return int(words[6])


def test_what_came_in_time_counts_although_it_is_told_late(
    agent: Any, server: socket.socket
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(server.getsockname())
        datagrams.settimeout(10)
        with frozen(agent.pid) as go_on:
            agent.say({"type": "batch", "batch": "b", "attempts": attempts(server, "udp", "tcp")})
            data, client = datagrams.recvfrom(100)
            datagrams.sendto(data, client)
            time.sleep(1)
            assert not agent.lines
            go_on()
        assert {one["verdict"] for one in agent.whole("b")} == {"CONNECTED"}


def test_a_program_that_is_not_served_gives_no_verdict_and_says_for_how_long(
    agent: Any, server: socket.socket
) -> None:
    """Neither of a silent server of datagrams or of HTTP, nor of a server of names."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent, frozen(agent.pid):
        silent.bind(server.getsockname())
        kinds = attempts(server, "udp", "http", "dns")
        agent.say({"type": "batch", "batch": "b", "attempts": kinds})
        results = agent.whole("b")
    assert [one["verdict"] for one in results] == ["BROKEN"] * 3
    assert all(2500 <= unserved(one["detail"]) <= one["ms"] for one in results)


def test_silence_is_told_by_a_program_that_is_served(agent: Any, server: socket.socket) -> None:
    agent.say({"type": "batch", "batch": "b", "attempts": attempts(server, "http")})
    (one,) = agent.whole("b")
    assert (one["verdict"], one["ms"] < 2500) == ("NO_ANSWER", True)


def test_a_first_heartbeat_that_is_told_late_opens_the_stream(
    streamer: Any, server: socket.socket
) -> None:
    opens(streamer, server)
    with server.accept()[0] as peer:
        assert peer.recv(100) == b"stream a\n"
        time.sleep(0.1)  # its receive is under way, which takes what is there without being told
        with frozen(streamer.pid) as go_on:
            peer.sendall(b"1\n")
            time.sleep(1)
            go_on()
        (end,) = streamer.hear()["ends"]
        assert [one["event"] for one in end["events"]] == ["opened"]


def test_a_reset_that_is_told_late_is_no_time_out(streamer: Any, server: socket.socket) -> None:
    with frozen(streamer.pid) as go_on:
        opens(streamer, server)
        reset(server.accept()[0])
        time.sleep(1)
        go_on()
    assert streamer.hear()["ends"][0]["verdict"] == "RESET"


def test_an_opening_that_is_not_served_is_broken(streamer: Any, server: socket.socket) -> None:
    with frozen(streamer.pid):
        opens(streamer, server)
        (end,) = streamer.hear()["ends"]
    assert end["verdict"] == "BROKEN"
    assert 2500 <= unserved(end["detail"]) < 10000


def test_a_report_meanwhile_is_broken_and_there_was_no_stall(
    streamer: Any, server: socket.socket
) -> None:
    """Heartbeats come all the while.  A report waits until it is known, and not longer than the
    bound."""
    opens(streamer, server)
    with server.accept()[0] as peer:
        peer.sendall(b"1\n")
        assert streamer.hear()["ends"][0]["verdict"] == "SURVIVED"
        with frozen(streamer.pid) as go_on:
            peer.sendall(b"2\n")
            time.sleep(0.5)  # the stall time is over, the bound is not
            begun = time.monotonic()
            (end,) = streamer.ask("stream-report")["ends"]
            assert end["verdict"] == "BROKEN"
            assert 2500 <= unserved(end["detail"]) < 10000
            assert time.monotonic() - begun > 1
            peer.sendall(b"3\n")
            go_on()
        deadline = time.monotonic() + 10
        number = 3
        while end["heard"] < 3:
            assert time.monotonic() < deadline, end
            (end,) = streamer.ask("stream-report")["ends"]
            number += 1
            peer.sendall(b"%d\n" % number)
        assert [one["event"] for one in end["events"]] == ["opened"]


def test_a_try_of_a_recovery_that_is_not_served_says_so(
    streamer: Any, server: socket.socket
) -> None:
    opens(streamer, server)
    peer = server.accept()[0]
    peer.sendall(b"1\n")
    streamer.hear()
    reset(peer)
    with server.accept()[0] as again:
        assert again.recv(100) == b"again a\n"
        with frozen(streamer.pid):
            deadline = time.monotonic() + 10
            while True:
                (end,) = streamer.ask("stream-report")["ends"]
                tried = [one for one in end["events"] if one["event"] == "tried"]
                if tried:
                    break
                assert time.monotonic() < deadline, end
                time.sleep(0.05)
    assert tried[0]["detail"].startswith("BROKEN ")
    assert 2500 <= unserved(tried[0]["detail"]) < 10000
