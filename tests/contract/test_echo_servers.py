# SPDX-License-Identifier: Apache-2.0
"""The echo servers' answers and limits on loopback: of both programs, and in part of the lab's
stand-in."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contract import loopback
from tests.contract.golden_lines import can_share, carry_on, conversations
from tests.contract.loopback import reset
from tests.contract.processes import Process, quiet
from tests.contract.programs import AGENTS, ECHO_SERVERS, FAILED, startable

MARK = "@@PROBE@@ "
PORTS = {"python": "--ports", "emulated": "-Ports", "pwsh": "-Ports"}
BOTH = ("python", "pwsh")

LIMIT = 16 * 1024 * 1024
HELD = 20.0
"""s.  For so long a server certainly holds a request without an end; it gives up after 30."""


class Server:
    """An echo server under way."""

    def __init__(self, kind: str, *more: str, stderr: int = subprocess.DEVNULL) -> None:
        self.kind = kind
        self.port = loopback.unused()
        environment = {"POD_NAMESPACE": "ns", "POD_NAME": "echo", "NODE_NAME": "w1"}
        argv = (*startable(ECHO_SERVERS[kind]), PORTS[kind], str(self.port), *more)
        self.program = Process(argv, stdout=subprocess.PIPE, stderr=stderr, env=environment)
        self.process = self.program.popen
        assert self.process.stdout
        self.ready = json.loads(self.process.stdout.readline()[len(MARK) :])

    def talk(self, request: bytes, timeout: float = 60.0) -> bytes:
        """All that comes back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as one:
            one.sendall(request)
            data = bytearray()
            while True:
                more = one.recv(1 << 20)
                if not more:
                    return bytes(data)
                data += more

    def get(self, path: str = "/x", verb: str = "GET") -> tuple[int, dict[str, str], bytes]:
        """Status, headers with names in lower case, body."""
        more = "Content-Length: 0" if verb == "PUT" else "X-A: b"
        request = f"{verb} {path} HTTP/1.0\r\nHost: a\r\nConnection: close\r\n{more}\r\n\r\n"
        head, _, body = self.talk(request.encode()).partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = {
            key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)
        }
        return int(status.split(" ")[1]), headers, body

    def post(self, body: bytes, timeout: float = 60.0) -> tuple[int, bytes]:
        head = (
            b"POST /x HTTP/1.0\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            % len(body)
        )
        answer = self.talk(head + body, timeout)
        head, _, back = answer.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), back

    def stop(self) -> None:
        self.program.end()


@pytest.fixture(scope="module")
def under_way() -> Iterator[dict[str, Server]]:
    """The servers that tests share, by their kinds."""
    servers: dict[str, Server] = {}
    yield servers
    for one in servers.values():
        one.stop()


def shared(request: pytest.FixtureRequest, under_way: dict[str, Server]) -> Iterator[Server]:
    """A server of the kind that a fixture's parameter names; another after a test that failed."""
    kind = request.param
    if kind not in under_way:
        under_way[kind] = Server(kind)
    yield under_way[kind]
    if request.node.stash.get(FAILED, False) or under_way[kind].process.poll() is not None:
        under_way.pop(kind).stop()


@pytest.fixture(params=BOTH)
def server(request: pytest.FixtureRequest, under_way: dict[str, Server]) -> Iterator[Server]:
    """Each of the two programs under way."""
    yield from shared(request, under_way)


@pytest.fixture(params=ECHO_SERVERS)
def any_server(request: pytest.FixtureRequest, under_way: dict[str, Server]) -> Iterator[Server]:
    """Each program or the stand-in under way."""
    yield from shared(request, under_way)


@pytest.fixture(params=BOTH)
def own_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Each of the two programs under way, that nobody else has asked."""
    one = Server(request.param)
    yield one
    one.stop()


def datagrams(server: Server, timeout: float = 60.0) -> socket.socket:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.settimeout(timeout)
    one.connect(("127.0.0.1", server.port))
    return one


def alive(server: Server) -> None:
    assert server.process.poll() is None
    assert server.get()[0] == 200
    with datagrams(server) as one:
        one.send(b"x")
        assert one.recv(70000).endswith(b"\nx")


def posting(size: int) -> bytes:
    return b"POST / HTTP/1.0\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size


@pytest.fixture(
    scope="module",
    params=[(agent, other) for agent in AGENTS for other in ECHO_SERVERS],
    ids="-to-".join,
)
def pair(
    request: pytest.FixtureRequest, ports: dict[str, int]
) -> Iterator[tuple[str, dict[str, int]]]:
    """An agent's name, and the golden ports with an echo server of one kind among them."""
    server = Server(request.param[1])
    yield request.param[0], {**ports, "$ECHO": server.port}
    server.stop()


@pytest.mark.parametrize("conversation", conversations("echo.jsonl"), ids=lambda one: one["case"])
def test_the_golden_conversations_of_the_agents(
    conversation: dict[str, Any], pair: tuple[str, dict[str, int]], share: Callable[..., Any]
) -> None:
    assert can_share(conversation)
    carry_on(conversation, pair[1], share(startable(AGENTS[pair[0]])))


def test_it_says_that_it_listens(any_server: Server) -> None:
    ready = any_server.ready
    assert (ready["type"], ready["protocol"], ready["ports"]) == ("listening", 2, [any_server.port])
    assert re.fullmatch("[0-9a-f]{64}", ready["sha256"])


@pytest.mark.parametrize("verb", ["GET", "PUT", "DELETE", "FOO"])
def test_the_identity_line(any_server: Server, verb: str) -> None:
    status, headers, body = any_server.get(verb=verb)
    who = json.loads(body)
    assert (status, who["client"], who["server"], who["server_port"], who["pod"], who["node"]) == (
        200,
        "127.0.0.1",
        "127.0.0.1",
        any_server.port,
        "ns/echo",
        "w1",
    )
    assert body.endswith(b"}\n")
    assert headers["content-length"] == str(len(body))
    assert (headers["x-probe-client"], headers["x-probe-client-port"]) == (
        "127.0.0.1",
        str(who["client_port"]),
    )
    assert (
        headers["x-probe-server"],
        headers["x-probe-pod"],
        headers["x-probe-node"],
        headers["connection"],
    ) == (
        "127.0.0.1",
        "ns/echo",
        "w1",
        "close",
    )


def test_head_has_the_head_alone(any_server: Server) -> None:
    status, headers, body = any_server.get(verb="HEAD")
    assert (status, body, int(headers["content-length"]) > 80, headers["x-probe-pod"]) == (
        200,
        b"",
        True,
        "ns/echo",
    )


@pytest.mark.parametrize(
    "host",
    [
        "",
        "Host: 127.0.0.1\r\n",
        "Host: 127.0.0.1:%d\r\n",
        "Host: 127.0.0.1:9\r\n",
        "Host: some.svc.cluster.local\r\n",
    ],
)
def test_any_host_will_do(server: Server, host: str) -> None:
    line = host % server.port if "%d" in host else host
    assert b" 200 " in server.talk(f"GET / HTTP/1.0\r\n{line}\r\n".encode())[:16]


@pytest.mark.parametrize("size", [0, 1, 512, 65536, 1_000_000, LIMIT])
def test_a_post_comes_back(any_server: Server, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"z" * (size % 256)
    assert any_server.post(body) == (200, body)


@pytest.mark.parametrize("size", [LIMIT + 1, 20_000_000, 5 * LIMIT])
def test_a_body_above_the_limit_is_413(any_server: Server, size: int) -> None:
    try:
        status, body = any_server.post(b"z" * size)
        assert (status, json.loads(body)["pod"]) == (413, "ns/echo")
    except (ConnectionResetError, BrokenPipeError):
        assert size > 4 * LIMIT, "only what is not read to its end may be reset"
    alive(any_server)


@pytest.mark.parametrize("verb", [b"POST", b"PUT"])
def test_a_post_without_length_is_411(any_server: Server, verb: bytes) -> None:
    assert b" 411 " in any_server.talk(verb + b" / HTTP/1.0\r\nHost: a\r\n\r\nabc")[:16]


@pytest.mark.parametrize(
    "request_",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"HELLO\r\n\r\n",
        b"GET / HTTP/1.0\r\nX-A: " + b"b" * 70000 + b"\r\n\r\n",
        posting(5).replace(b": 5", b": -5"),
        posting(5).replace(b": 5", b": \xb9"),
    ],
    ids=lambda one: repr(one[:12]),
)
def test_garbage_is_400_or_cut_off(server: Server, request_: bytes) -> None:
    try:
        answer = server.talk(request_)
        assert answer == b"" or b" 400 " in answer[:16]
    except ConnectionResetError:
        pass
    alive(server)


@pytest.mark.parametrize("kind", ["emulated", "pwsh"])
def test_the_page_of_the_demo(kind: str) -> None:
    server = Server(kind, "-Page")
    try:
        for number in (1, 2, 3):
            status, headers, body = server.get("/")
            assert (status, headers["content-type"]) == (200, "text/html")
            assert (
                body
                == b"<html><body><H1>Windows Container Web Server</H1><p>IP 127.0.0.1 callerCount %d </body></html>"
                % number
            )
        assert json.loads(server.get("/whoami")[2])["pod"] == "ns/echo"
        assert server.post(b"abc") == (200, b"abc")
        assert json.loads(server.get("/", "PUT")[2])["pod"] == "ns/echo"
        assert b"callerCount 4 " in server.get("/?x")[2]
    finally:
        server.stop()


@pytest.mark.parametrize("size", [0, 1, 512, 513, 9000, 65507])
def test_a_datagram_is_answered(any_server: Server, size: int) -> None:
    with datagrams(any_server) as one:
        for _ in range(3):
            one.send(b"a" * size)
            back = one.recv(70000)
            line = back[: back.index(b"\n") + 1]
            assert json.loads(line)["client_port"] == one.getsockname()[1]
            assert back == line + b"a" * (size if size <= 512 else size - len(line))
        one.send(b"?" + b"a" * min(size, 65506))
        assert one.recv(70000).endswith(b"}\n")


def test_empty_datagrams_do_not_end_it(any_server: Server) -> None:
    with datagrams(any_server) as one:
        for _ in range(50):
            one.send(b"")
        got = [one.recv(70000) for _ in range(50)]
        assert len({*got}) == 1
    alive(any_server)


def test_datagrams_of_clients_that_are_gone_do_not_end_it(server: Server) -> None:
    for _ in range(50):
        with datagrams(server) as one:
            one.send(b"x")
    time.sleep(0.3)
    alive(server)


def test_a_reset_while_8_mb_come_back_does_not_end_it(server: Server) -> None:
    for wait in (0.5, 0.1, 0.3, 0.5):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", server.port))
        one.sendall(posting(8_000_000) + b"y" * 8_000_000)
        time.sleep(wait)
        reset(one)
    time.sleep(0.5)
    alive(server)


KINDS = {
    "connect": (b"", 0),
    "half a head": (b"GET / HTTP/1.0\r\nHo", 0),
    "head": (b"GET / HTTP/1.0\r\nHost: a\r\n\r\n", 0),
    "head, later": (b"GET / HTTP/1.0\r\nHost: a\r\n\r\n", 0.002),
    "half a body": (posting(9000) + b"y" * 4000, 0.001),
    "body": (posting(9000) + b"y" * 9000, 0.001),
}


@pytest.mark.parametrize("kind", KINDS)
def test_300_resets_of_each_kind(server: Server, kind: str) -> None:
    said, wait = KINDS[kind]
    for _ in range(300):
        one = socket.create_connection(("127.0.0.1", server.port))
        one.sendall(said)
        time.sleep(wait)
        reset(one)
    alive(server)


def test_slow_clients_block_nobody(server: Server) -> None:
    """Clients that never end their request are held all the while others are answered."""
    held, begun = [], time.monotonic()
    for said in (b"", b"GET / HTTP/1.0\r\nX-A: ", posting(1000) + b"abc") * 40:
        held.append(socket.create_connection(("127.0.0.1", server.port)))
        held[-1].sendall(said)
    for _ in range(4):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        client.sendall(posting(8_000_000) + b"y" * 8_000_000)
        held.append(client)
    answered = 0
    # A starved machine makes fewer rounds before the servers give up on requests without an end.
    while answered < 60 and time.monotonic() - begun < HELD:
        for client in held[1:120:3]:
            client.sendall(b"a")
        assert server.get()[0] == 200
        answered += 1
    assert answered
    with datagrams(server) as client:
        client.send(b"x")
        assert client.recv(1000)
    for client in held:
        client.close()


def test_200_clients_at_once(server: Server) -> None:
    server.get()
    wrong, gate = [], threading.Barrier(200)

    def client(number: int) -> None:
        gate.wait()
        try:
            got = server.post(b"%d" % number) if number % 2 else server.get()[::2]
            assert got[0] == 200
            assert number % 2 == 0 or got[1] == b"%d" % number
        except Exception as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]


@pytest.mark.parametrize("kind", BOTH)
def test_standard_error_is_bounded_and_need_not_be_read(kind: str) -> None:
    server = Server(kind, stderr=subprocess.PIPE)
    try:
        begin = time.monotonic()
        for _ in range(600):
            one = socket.create_connection(("127.0.0.1", server.port))
            one.sendall(posting(9000) + b"y" * 100)
            reset(one)
        alive(server)
        took = time.monotonic() - begin
    finally:
        os.killpg(server.process.pid, signal.SIGKILL)
        assert server.process.stderr
        said = server.process.stderr.read().decode(errors="replace").splitlines()
        server.stop()
    assert 1 <= len(said) <= took + 2, said[:5]
    assert re.match(r"echo-server: \d+ troubles so far, the last: ", said[0])


@pytest.mark.parametrize("kind", ECHO_SERVERS)
def test_a_udp_port_of_somebody_else_is_left_alone(kind: str) -> None:
    holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port = loopback.unused()
    holder.bind(("0.0.0.0", port))
    program = Process(
        [*startable(ECHO_SERVERS[kind]), PORTS[kind], str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    process = program.popen
    assert process.stdout
    try:
        assert b'"listening"' in process.stdout.readline()
        with socket.create_connection(("127.0.0.1", port), 5) as one:
            one.sendall(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n")
            assert b" 200 " in one.recv(1000)[:16]
    finally:
        program.end()
        holder.close()


def test_each_datagram_is_answered_before_the_next(server: Server) -> None:
    with datagrams(server) as client:
        for number in range(200):
            client.send(b"%d" % number)
            assert client.recv(1000).endswith(b"\n%d" % number)


def test_it_does_nothing_while_nobody_asks(own_server: Server) -> None:
    """It waits to be woken: a server that looked now and then would answer late, and cost every node its share."""
    own_server.get()
    program = own_server.program
    quiet(program)
    woken = program.woken()
    if own_server.kind == "python":  # .NET has timers of its own
        time.sleep(3)
        assert program.woken() == woken
