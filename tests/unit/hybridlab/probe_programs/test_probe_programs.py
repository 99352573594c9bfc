# SPDX-License-Identifier: Apache-2.0
"""The lab's Windows probe programs speak the protocol, and only for files that are recorded."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import itertools
import json
import selectors
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from hybridlab.probe_programs import recorded
from hybridlab.probe_programs.agent import Agent
from hybridlab.probe_programs.dns import candidates
from hybridlab.probe_programs.echo_server import EchoServer
from hybridlab.probe_programs.recorded import Program
from hybridlab.probe_programs.run import run
from hybridlab.probe_programs.stream_agent import StreamAgent
from hybridlab.probe_programs.streams import STRANGERS, Listener, Opened
from hybridlab.runtime.applet import Process
from tests.unit.hybridlab.windows.loopback import Lines, LoopbackNet, process

AGENT = Program("matrix-agent.ps1", "0" * 64)
ECHO = Program("echo-server.ps1", "1" * 64)
STREAMS = Program("stream-agent.ps1", "2" * 64)
SCRIPT = b"# probe-protocol: 2\nWrite-Host anything\n"


def say(to: Process, **message: Any) -> None:
    to.stdin.feed_data(json.dumps(message).encode() + b"\n")


async def heard(out: Lines, kind: str) -> dict[str, Any]:
    """The next line of that type; others are passed over."""
    while True:
        line = await asyncio.wait_for(out.reader.readline(), 10)
        assert line.startswith(b"@@PROBE@@ "), line
        message: dict[str, Any] = json.loads(line.removeprefix(b"@@PROBE@@ "))
        if message["type"] == kind:
            return message


async def results_of(out: Lines, batch: str) -> list[dict[str, Any]]:
    """All results of a batch, by their ids."""
    found: list[dict[str, Any]] = []
    while True:
        line = await heard(out, "results")
        assert line["batch"] == batch
        found += line["results"]
        if not line["left"]:
            return sorted(found, key=lambda one: int(one["id"]))


def conversation(
    talk: Callable[[Process, Lines], Awaitable[None]],
    *,
    idle: float = 60.0,
    **settings: float | str,
) -> int:
    """An agent, and what a test says to it; its exit status."""

    async def both() -> int:
        made, out = process(**settings)
        agent = asyncio.create_task(Agent(made, AGENT, beat=60, idle=idle).run())
        await talk(made, out)
        return await asyncio.wait_for(agent, 10)

    return asyncio.run(both())


def attempted(*attempts: dict[str, Any], **settings: Any) -> list[dict[str, Any]]:
    """The results of one batch."""
    found: list[dict[str, Any]] = []

    async def talk(to: Process, out: Lines) -> None:
        numbered = [
            {"id": number, "give_up_ms": 300, **attempt} for number, attempt in enumerate(attempts)
        ]
        say(to, type="batch", batch="b7", attempts=numbered)
        found.extend(await results_of(out, "b7"))
        say(to, type="quit")

    assert conversation(talk, **settings) == 0
    return found


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_an_agent_says_hello_beats_when_asked_and_leaves_when_told() -> None:
    async def talk(to: Process, out: Lines) -> None:
        hello = await heard(out, "hello")
        assert (hello["protocol"], hello["sha256"], hello["os"]) == (2, AGENT.sha256, "windows")
        assert hello["open_limit"] == 4000
        say(to, type="ping")
        assert (await heard(out, "beat"))["open"] == 0
        say(to, type="quit")
        assert (await heard(out, "bye"))["reason"] == "quit"

    assert conversation(talk) == 0


def test_what_is_above_the_limit_of_the_profile_waits_for_its_turn() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        attempts = [
            {"kind": "udp", "host": "127.0.0.1", "port": silent.getsockname()[1], "give_up_ms": 100}
        ] * 6
        results = attempted(*attempts, windows_probe_open_limit=2)
    began = [result["began_ms"] for result in results]
    assert began == sorted(began)
    assert [later - earlier > 90 for earlier, later in itertools.pairwise(began)] == [
        False,
        True,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(("idle", "reason"), [(0.05, "idle"), (60.0, "end of input")])
def test_an_agent_that_is_left_alone_leaves(idle: float, reason: str) -> None:
    async def talk(to: Process, out: Lines) -> None:
        if reason == "end of input":
            to.stdin.feed_eof()
        assert (await heard(out, "bye"))["reason"] == reason

    assert conversation(talk, idle=idle) == 0


def test_an_agent_that_nobody_reads_any_more_ends_without_a_word() -> None:
    said: list[dict[str, Any]] = []

    async def both() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        made, out = process()
        agent = asyncio.create_task(Agent(made, AGENT, beat=0.01, idle=60).run())
        await heard(out, "hello")
        out.closed = True
        say(made, type="batch", batch="b1", attempts=[])
        await asyncio.sleep(0.05)
        made.stdin.feed_eof()
        with pytest.raises(BrokenPipeError):
            await asyncio.wait_for(agent, 10)
        del agent
        gc.collect()

    asyncio.run(both())
    assert said == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"no json\n", "Expecting value"),
        (b"[]\n", "one JSON object"),
        (b'{"type":"dance"}\n', "type must be batch"),
        (b'{"type":"batch","batch":3,"attempts":[]}\n', "batch must be"),
        (b'{"type":"batch","batch":"b","attempts":5}\n', "must be a list"),
        (
            b'{"type":"batch","batch":"b","attempts":[{"id":1,"kind":"tcp","give_up_ms":1}]}\n',
            "attempt 0: host",
        ),
    ],
)
def test_a_line_that_cannot_be_carried_out_is_an_error_and_nothing_is_tried(
    line: bytes, message: str
) -> None:
    async def talk(to: Process, out: Lines) -> None:
        to.stdin.feed_data(line)
        assert message in (await heard(out, "error"))["message"]
        say(to, type="quit")

    assert conversation(talk) == 0


def test_open_refused_and_silent_ports_have_their_words() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as open_server,
        socket.create_server(("127.0.0.1", 0)) as mute,
    ):
        results = attempted(
            {"kind": "tcp", "host": "127.0.0.1", "port": open_server.getsockname()[1]},
            {"kind": "tcp", "host": "127.0.0.1", "port": closed_port()},
            {"kind": "http", "host": "127.0.0.1", "port": mute.getsockname()[1]},
            {"kind": "udp", "host": "127.0.0.1", "port": closed_port()},
        )
    assert [result["verdict"] for result in results] == [
        "CONNECTED",
        "REFUSED",
        "NO_ANSWER",
        "REFUSED",
    ]
    assert results[1]["detail"] == "ConnectionRefused/10061"


def test_a_refusal_comes_late_and_to_who_waits_less_long_never() -> None:
    refused = {"kind": "tcp", "host": "127.0.0.1", "port": closed_port()}
    late = attempted({**refused, "give_up_ms": 5000}, os="windows", windows_refused_ms=40)[0]
    assert (late["verdict"], late["ms"] >= 40) == ("REFUSED", True)
    never = attempted({**refused, "give_up_ms": 50}, os="windows", windows_refused_ms=60000)[0]
    assert never["verdict"] == "TIMED_OUT"


def test_a_stream_is_refused_late_too() -> None:
    async def opened() -> dict[str, Any]:
        job = {
            "stream": "s1",
            "host": "127.0.0.1",
            "port": closed_port(),
            "every_ms": 10,
            "stall_ms": 50,
            "give_up_ms": 50,
        }
        made, _ = process()
        end = Opened(
            lambda: 0.0,
            lambda *_: None,
            made.net,
            job,
            {"os": "windows", "windows_refused_ms": 60000},
        )
        await end.run()
        return end.report()

    assert asyncio.run(opened())["verdict"] == "TIMED_OUT"


@pytest.mark.parametrize(("ending", "verdict"), [("reset", "RESET"), ("fin", "CLOSED")])
def test_a_server_that_hangs_up_is_told_apart(ending: str, verdict: str) -> None:
    async def both() -> list[dict[str, Any]]:
        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            if ending == "reset":
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            else:
                await reader.readuntil(b"\r\n\r\n")
                writer.close()

        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        made, out = process()
        agent = asyncio.create_task(Agent(made, AGENT, beat=60, idle=60).run())
        port = server.sockets[0].getsockname()[1]
        attempt = {"id": 1, "kind": "http", "give_up_ms": 1000, "host": "127.0.0.1", "port": port}
        say(made, type="batch", batch="b1", attempts=[attempt])
        results: list[dict[str, Any]] = await results_of(out, "b1")
        say(made, type="quit")
        await agent
        server.close()
        return results

    assert [result["verdict"] for result in asyncio.run(both())] == [verdict]


def test_the_echo_server_says_whom_it_saw_over_http_and_udp() -> None:
    async def both() -> list[dict[str, Any]]:
        server_process, server_out = process()
        port = closed_port()
        server = asyncio.create_task(
            EchoServer(server_process, ECHO, ports=[port], page=True).run()
        )
        assert (await heard(server_out, "listening"))["ports"] == [port]
        made, out = process()
        agent = asyncio.create_task(Agent(made, AGENT, beat=60, idle=60).run())
        where = {"give_up_ms": 2000, "host": "127.0.0.1", "port": port}
        attempts = [
            {"id": 0, "kind": "http", "path": "/who", **where},
            {"id": 1, "kind": "http", "payload": 70000, **where},
            {"id": 2, "kind": "udp", "send": "hi", **where},
            {"id": 3, "kind": "udp", "payload": 2000, **where},
            {"id": 4, "kind": "http", "path": "/", **where},
        ]
        say(made, type="batch", batch="b1", attempts=attempts)
        results: list[dict[str, Any]] = await results_of(out, "b1")
        say(made, type="quit")
        await agent
        server.cancel()
        return results

    who, post, udp, long_udp, page = asyncio.run(both())
    assert {result["verdict"] for result in (who, post, udp, long_udp, page)} == {"CONNECTED"}
    assert who["headers"]["x-probe-client"] == "127.0.0.1"
    assert who["headers"]["x-probe-pod"] == "ns/pod"
    assert post["body_bytes"] == 70000
    assert udp["body_bytes"] > 2
    assert long_udp["body_bytes"] == 2000
    assert page["status"] == 200


def test_windows_asks_for_names_as_windows_does() -> None:
    suffixes = ["demo.svc.cluster.local", "svc.cluster.local"]
    assert candidates("web", "A", suffixes) == [
        "web.demo.svc.cluster.local",
        "web.svc.cluster.local",
    ]
    assert candidates("web.demo", "A", suffixes) == ["web.demo"]
    assert candidates("web.demo.svc.cluster.local.", "A", suffixes) == [
        "web.demo.svc.cluster.local"
    ]
    assert candidates("10.96.0.10", "PTR", suffixes) == ["10.0.96.10.in-addr.arpa"]


def test_a_recorded_file_is_told_by_its_content_and_any_other_is_not_emulated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        recorded, "table", lambda: {"matrix-agent.ps1": hashlib.sha256(SCRIPT).hexdigest()}
    )
    assert recorded.identify("C:\\probe\\any-name.ps1", SCRIPT).name == "matrix-agent.ps1"
    for content, reason in [
        (SCRIPT + b" ", "is not recorded"),
        (b"# probe-protocol: 1\n", "its probe protocol is 1, but the lab emulates 2"),
        (b"Write-Host hello\n", "probe protocol is none"),
    ]:
        with pytest.raises(recorded.NotRecorded, match=reason):
            recorded.identify("C:\\probe\\matrix-agent.ps1", content)


def test_of_too_many_strangers_who_wait_together_the_oldest_is_reset() -> None:
    async def ran() -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=2 * STRANGERS) as server:
            server.setblocking(False)
            held = [socket.create_connection(server.getsockname()) for _ in range(STRANGERS + 1)]
            listener = Listener(time.monotonic, lambda *_: None, server, lambda _: None)
            loop = asyncio.get_running_loop()
            held[0].setblocking(False)
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(loop.sock_recv(held[0], 1), 10)
            listener.close()
            for one in held:
                one.close()

    asyncio.run(ran())


@dataclass
class Watchers(LoopbackNet):
    """A pod's network that notes which of its sockets are closed while an event loop still waits for them."""

    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    too_early: list[str] = field(default_factory=list)

    def socket(
        self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, proto: int = 0
    ) -> socket.socket:
        watchers = self

        class Watched(socket.socket):
            def close(self) -> None:
                if self.fileno() in watchers.selector.get_map():
                    watchers.too_early.append(str(self))
                super().close()

        made = Watched(family, kind, proto)
        made.setblocking(False)
        return made


@pytest.mark.parametrize("of", ["echo server", "stream agent"])
def test_a_port_is_closed_only_when_nobody_waits_for_it_so_that_who_gets_its_number_next_is_heard(
    of: str,
) -> None:
    watchers = Watchers()

    async def ran() -> None:
        (made, out), port = process(), closed_port()
        made = replace(made, net=watchers)
        if of == "echo server":
            work = asyncio.create_task(EchoServer(made, ECHO, ports=[port], page=False).run())
            await heard(out, "listening")
        else:
            work = asyncio.create_task(StreamAgent(made, STREAMS, beat=60, idle=60).run())
            say(made, type="stream-listen", batch="b1", port=port, every_ms=100, stall_ms=1000)
            await heard(out, "result")
        await asyncio.sleep(0.05)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await asyncio.sleep(0)
        socket.create_server(("127.0.0.1", port)).close()  # it is free again

    with asyncio.Runner(
        loop_factory=lambda: asyncio.SelectorEventLoop(watchers.selector)
    ) as runner:
        runner.run(ran())
    assert not watchers.too_early


@pytest.mark.parametrize(
    ("content", "arguments", "reason"),
    [
        (SCRIPT + b" ", [], "not emulated: C:\\x.ps1: its SHA-256"),
        (SCRIPT, ["-Loop"], "not emulated: option -loop"),
        (SCRIPT, ["stray"], "not emulated: argument 'stray'"),
    ],
)
def test_what_the_lab_does_not_know_fails_and_says_so(
    monkeypatch: pytest.MonkeyPatch, content: bytes, arguments: list[str], reason: str
) -> None:
    monkeypatch.setattr(
        recorded, "table", lambda: {"matrix-agent.ps1": hashlib.sha256(SCRIPT).hexdigest()}
    )

    async def ran() -> tuple[int, bytes]:
        made, _ = process()
        code = await run(made, "C:\\x.ps1", content, arguments)
        assert isinstance(made.stderr, Lines)
        made.stderr.reader.feed_eof()
        return code, await made.stderr.reader.read()

    code, said = asyncio.run(ran())
    assert code == 1
    assert said.decode().startswith(reason)
