# SPDX-License-Identifier: Apache-2.0
"""Times, ends, and many attempts at once, which golden conversations cannot show: tests of both
agents where possible."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract import loopback
from tests.contract.processes import completed
from tests.contract.programs import options


def attempt(
    kind: str, port: int, number: int = 0, give_up_ms: float = 2000, **more: Any
) -> dict[str, Any]:
    return {
        "id": number,
        "kind": kind,
        "give_up_ms": give_up_ms,
        "host": "127.0.0.1",
        "port": port,
        **more,
    }


def batch(name: str, *attempts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "batch", "batch": name, "attempts": list(attempts)}


@pytest.fixture
def program(agent: list[str], share: Callable[..., Any]) -> Any:
    """An agent that has said hello, and is shared with other tests."""
    return share(agent)


@pytest.fixture
def any_program(any_agent: list[str], share: Callable[..., Any]) -> Any:
    """An agent, or the lab's stand-in for one, that has said hello, and is shared with other
    tests."""
    return share(any_agent)


def until(seen: Callable[[], bool], within: float = 120) -> None:
    """Wait until it is observed."""
    deadline = time.monotonic() + within
    while not seen():
        assert time.monotonic() < deadline, "not observed"
        time.sleep(0.02)


@pytest.fixture
def sent_at() -> dict[int, float]:
    """Return the time of each answer of the port that answers late, by the port that it
    answered."""
    return {}


@pytest.fixture
def late(sent_at: dict[int, float]) -> Iterator[int]:
    """A UDP port that answers so many milliseconds later as the datagram says."""
    sock = loopback.local(socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    queue: list[tuple[float, Any]] = []

    def answer() -> None:
        with contextlib.suppress(OSError):
            while True:
                time.sleep(0.002)
                while queue and queue[0][0] <= time.monotonic():
                    client = queue.pop(0)[1]
                    sock.sendto(b"late", client)
                    sent_at[client[1]] = time.monotonic()

    def loop() -> None:
        with contextlib.suppress(OSError):
            while True:
                data, client = sock.recvfrom(100)
                queue.append((time.monotonic() + float(data) / 1000, client))

    for each in (answer, loop):
        threading.Thread(target=each, daemon=True).start()
    yield sock.getsockname()[1]
    sock.close()


def test_the_agent_says_the_hash_of_its_own_file(
    agent: list[str], converse: Callable[..., Any]
) -> None:
    hello = converse(*agent).hear()
    assert (hello["type"], hello["protocol"], hello["open_limit"]) == ("hello", 2, 4000)
    path = loopback.PROGRAMS / hello["program"]
    assert hello["sha256"].lower() == hashlib.sha256(path.read_bytes()).hexdigest()
    assert path.read_bytes().startswith(b"# probe-protocol: 2\n")


def test_a_stop_around_the_deadline_makes_no_wrong_verdict(any_program: Any, late: int) -> None:
    """Answers that came while the any_program had no processor came in time."""
    wrong, count = [], 0
    for turn in range(4):
        begun = time.monotonic()
        any_program.say(
            batch(f"b{turn}", *(attempt("udp", late, n, 1000, send="800") for n in range(100)))
        )
        time.sleep(max(0.0, begun + 0.63 + 0.005 * turn - time.monotonic()))
        os.kill(any_program.pid, signal.SIGSTOP)
        time.sleep(0.47)
        os.kill(any_program.pid, signal.SIGCONT)
        results = any_program.whole(f"b{turn}")
        wrong += [result for result in results if result["verdict"] != "CONNECTED"]
        count += len(results)
    assert (count, len(wrong)) == (400, 0), wrong[:3]


def test_want_of_an_answer_is_told_after_a_second_look(
    any_program: Any, ports: dict[str, int]
) -> None:
    """Not before it, and not with what gives up later."""
    patient = attempt("udp", ports["$SILENT"], 1, 60000)
    any_program.say(batch("b", attempt("udp", ports["$SILENT"], 0, 300), patient))
    line = any_program.hear()
    assert [(result["id"], result["verdict"]) for result in line["results"]] == [(0, "TIMED_OUT")]
    assert line["results"][0]["ms"] >= 330
    assert line["left"] == 1
    any_program.say({"type": "cancel", "batch": "b"})
    assert [result["id"] for result in any_program.whole("b")] == [1]


def test_an_answer_between_the_two_looks_counts(
    any_program: Any, late: int, sent_at: dict[int, float]
) -> None:
    """Asked until the port was punctual itself, which it cannot be on a machine that is busy for a
    moment."""
    for _ in range(50):
        said = time.monotonic()
        any_program.say(batch("b", *(attempt("udp", late, n, 300, send="305") for n in range(5))))
        punctual = 0
        for item in any_program.whole("b"):
            port = int(item["local"].rpartition(":")[2])
            until(lambda port=port: port in sent_at)  # type: ignore[misc]
            if sent_at.pop(port) - said <= 0.325:
                assert item["verdict"] == "CONNECTED", item
                punctual += 1
        if punctual:
            return
    pytest.fail("not one answer of fifty times five left within 20 ms of its time")


def test_results_arrive_before_slower_attempts_end(any_program: Any, ports: dict[str, int]) -> None:
    """Each server answers once the result before it was heard: results that were kept back would
    wait for ever."""
    servers = [loopback.local(socket.SOCK_DGRAM) for _ in range(4)]
    waits = [
        attempt("udp", server.getsockname()[1], n, 60000, send="x")
        for n, server in enumerate(servers)
    ]
    any_program.say(batch("b", attempt("tcp", ports["$DROPPING"], 9, 60000), *waits))
    asked = [server.recvfrom(100)[1] for server in servers]
    for number, (server, client) in enumerate(zip(servers, asked, strict=True)):
        server.sendto(b"late", client)
        line = any_program.hear()
        assert [(result["id"], result["verdict"]) for result in line["results"]] == [
            (number, "CONNECTED")
        ]
        assert line["left"] == 4 - number
        server.close()
    any_program.say({"type": "cancel", "batch": "b"})
    assert [result["id"] for result in any_program.whole("b")] == [9]


def test_attempts_begin_in_the_order_of_the_batch(any_program: Any, ports: dict[str, int]) -> None:
    before = any_program.up
    any_program.say(
        batch(
            "b", *(attempt("tcp", ports["$ECHO" if n % 2 else "$REFUSING"], n) for n in range(200))
        )
    )
    results = sorted(any_program.whole("b"), key=lambda one: one["id"])
    began = [result["began_ms"] for result in results]
    assert began == sorted(began)
    assert before <= began[0]
    assert began[-1] <= any_program.up


def test_began_and_ms_are_on_the_clock_of_the_lines(
    any_program: Any, ports: dict[str, int]
) -> None:
    any_program.say({"type": "ping"})
    before = any_program.hear(skip=())["up_ms"]
    any_program.say(batch("b", attempt("tcp", ports["$DROPPING"], 0, 300)))
    (result,) = any_program.whole("b")
    assert before <= result["began_ms"] <= result["began_ms"] + result["ms"] <= any_program.up
    assert result["ms"] < 30_000, "told with something else, and not when its time was over"


def test_cancel_closes_two_hundred_open_attempts_and_nothing_else(
    any_program: Any, ports: dict[str, int]
) -> None:
    idle = any_program.program.sockets()
    any_program.say(batch("b", *(attempt("udp", ports["$SILENT"], n, 60000) for n in range(200))))
    any_program.say(batch("other", attempt("udp", ports["$SILENT"], 0, 60000)))
    any_program.say({"type": "ping"})
    assert any_program.hear(skip=())["open"] == 201
    until(lambda: any_program.program.sockets() >= idle + 201)
    before = any_program.program.sockets()
    any_program.say({"type": "cancel", "batch": "b"})
    results = any_program.whole("b")  # of attempts that would give up in a minute
    assert {result["verdict"] for result in results} == {"CANCELLED"}
    assert sorted(result["id"] for result in results) == list(range(200))
    assert all(result["began_ms"] is not None for result in results)
    assert any_program.program.sockets() <= before - 200
    any_program.say({"type": "ping"})
    assert any_program.hear(skip=())["open"] == 1
    any_program.say({"type": "cancel", "batch": "other"})
    assert any_program.whole("other")[0]["verdict"] == "CANCELLED"


@pytest.fixture
def silent_place() -> Iterator[list[str]]:
    """A network namespace with an address that drops everything: the words that run a program in
    it."""
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("only root can make a network namespace")
    name = f"probe{os.getpid()}"

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    ip("netns", "add", name)
    try:
        ip(
            "-n", name, "link", "add", "nowhere", "type", "veth", "peer", "name", "end"
        )  # what is sent is for none there
        ip("-n", name, "addr", "add", "10.99.0.1/24", "dev", "nowhere")
        for link in ("nowhere", "end", "lo"):
            ip("-n", name, "link", "set", link, "up")
        ip(
            "-n",
            name,
            "neigh",
            "add",
            "10.99.0.9",
            "lladdr",
            "02:00:00:00:00:09",
            "dev",
            "nowhere",
            "nud",
            "permanent",
        )
        yield ["ip", "netns", "exec", name]
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr!r}")
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def test_what_is_above_the_limit_waits_and_can_be_cancelled(
    agent: list[str], converse: Callable[..., Any], silent_place: list[str]
) -> None:
    program = converse(*silent_place, *agent)
    program.hear()
    specs = [{**attempt("tcp", 1 + n % 60000, n, 60000), "host": "10.99.0.9"} for n in range(4200)]
    program.say(batch("b", *specs))
    until(lambda: program.program.sockets() >= 4000)
    program.say(
        batch("later", attempt("tcp", 1, 0, 200))
    )  # waits behind them, is begun when they are gone
    program.say({"type": "cancel", "batch": "b"})
    results = program.whole("b")
    assert [result["verdict"] for result in results] == ["CANCELLED"] * 4200
    assert sorted(result["id"] for result in results if result["began_ms"] is None) == list(
        range(4000, 4200)
    )
    assert program.whole("later")[0]["verdict"] == "REFUSED"


def test_four_hundred_open_ports_in_one_batch(program: Any) -> None:
    """Each is looked at while others begin; the first batch may not, where paths are compiled at
    their first use."""
    listener = loopback.local()
    listener.listen(1000)
    for name in ("first", "second"):
        program.say(
            batch(name, *(attempt("tcp", listener.getsockname()[1], n, 3000) for n in range(400)))
        )
        results = program.whole(name)
        assert [result["verdict"] for result in results].count("CONNECTED") == 400
    listener.close()
    last = max(result["began_ms"] for result in results)
    while_others_begin = [
        result for result in results if result["began_ms"] + result["connect_ms"] < last
    ]
    assert len(while_others_begin) > 200, "begins are not interleaved with looks"


def test_a_peer_that_sends_without_end_holds_up_nobody(program: Any, ports: dict[str, int]) -> None:
    listener = loopback.local()

    flooded = threading.Event()

    def flood(connection: socket.socket) -> None:
        for number in itertools.count():
            connection.sendall(b"x" * 65536)
            if number == 100:  # more than buffers hold: it is read
                flooded.set()

    loopback.serve(listener, flood, apart=True)
    program.say(batch("flood", attempt("http", listener.getsockname()[1], 0, 60000)))
    assert flooded.wait(60)
    program.say(batch("b", attempt("tcp", ports["$ECHO"], 0)))
    assert program.whole("b")[0]["verdict"] == "CONNECTED"  # while the flood goes on
    program.say({"type": "cancel", "batch": "flood"})
    assert program.whole("flood")[0]["verdict"] == "CANCELLED"
    program.say(batch("flood", attempt("http", listener.getsockname()[1], 0, 150)))
    assert program.whole("flood")[0]["verdict"] == "NO_ANSWER"
    listener.close()


def test_json_nested_two_thousand_deep_is_an_error(program: Any) -> None:
    program.write(b'{"type":"ping","x":' + b"[" * 100000 + b"]" * 100000 + b"}\n")
    line = program.hear(skip=())
    assert line["type"] in ("error", "beat")
    program.write(b'{"type":"batch","batch":"b","attempts":' + b"[" * 2000 + b"]" * 2000 + b"}\n")
    assert program.hear()["type"] == "error"
    program.say({"type": "ping"})
    assert program.hear(skip=())["type"] == "beat"


def test_a_line_of_ten_megabytes(program: Any, ports: dict[str, int]) -> None:
    for name, port in (("good", ports["$REFUSING"]), ("bad", "x")):
        program.say(batch(name, {**attempt("tcp", 1), "port": port, "more": "x" * 10_000_000}))
        line = program.hear()
        assert (line["type"], line["batch"]) == ("results" if name == "good" else "error", name)


def test_a_reader_that_pauses_loses_nothing(program: Any, ports: dict[str, int]) -> None:
    program.say(
        batch(
            "b", *(attempt("http", ports["$HTTP"], n, 5000, path="/body-70000") for n in range(40))
        )
    )
    time.sleep(1)  # the pause
    results = program.whole("b")
    assert len(results) == 40
    assert {
        (result["verdict"], result["body_bytes"], len(result["body_b64"])) for result in results
    } == {("CONNECTED", 70000, 87384)}


def test_the_agent_ends_when_nobody_reads_any_more(
    agent: list[str], converse: Callable[..., Any]
) -> None:
    if agent[-1].endswith(".ps1"):
        pytest.skip("PowerShell does not notice it: it ends with its input or when idle")
    program = converse(*agent, "--beat", "0.1")
    program.hear()
    program.process.stdout.close()
    assert program.process.wait(60) == 3


def test_the_agent_beats_while_it_waits(agent: list[str], converse: Callable[..., Any]) -> None:
    program = converse(*options(agent, beat=0.05, idle=60))
    assert program.hear(skip=())["type"] == "hello"
    beats = [program.hear(skip=()) for _ in range(3)]
    assert [(beat["type"], beat["open"]) for beat in beats] == [("beat", 0)] * 3


def test_the_agent_leaves_by_itself_when_nobody_asks(
    agent: list[str], converse: Callable[..., Any]
) -> None:
    program = converse(*options(agent, beat=60, idle=0.3))
    assert program.hear()["type"] == "hello"
    bye = program.hear()
    assert (bye["type"], bye["reason"]) == ("bye", "idle")
    assert program.process.wait(60) == 0


def test_an_option_that_is_not_known_ends_with_three(agent: list[str]) -> None:
    if agent[-1].endswith(".ps1"):
        pytest.skip("PowerShell itself answers for the parameters of a script")
    done = subprocess.run(
        [*agent, "--colour", "red"], input=b"", capture_output=True, timeout=10, check=False
    )
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"--colour" in done.stderr


def test_standard_input_may_be_a_file(
    tmp_path: Path, agent: list[str], ports: dict[str, int]
) -> None:
    path = tmp_path / "lines"
    path.write_text(json.dumps(batch("b", attempt("tcp", ports["$REFUSING"]))) + "\n")
    with path.open("rb") as lines:
        done = completed(agent, within=60, stdin=lines)
    assert done.returncode == 0, done.stderr
    said = [
        json.loads(line.partition(b" ")[2])
        for line in done.stdout.splitlines()
        if line.startswith(b"@@PROBE@@ ")
    ]
    assert [item["type"] for item in said if item["type"] != "beat"] == ["hello", "results", "bye"]


def test_the_linux_agent_runs_under_the_oldest_python_that_it_promises(
    converse: Callable[..., Any],
) -> None:
    oldest = sorted(Path.home().glob(".pyenv/versions/3.8.*/bin/python"))
    if not oldest:
        pytest.skip("no Python 3.8 on this machine")
    program = converse(str(oldest[0]), "-I", "-S", "-u", str(loopback.PROGRAMS / "agent.py"))
    assert program.hear()["runtime"].startswith("Python 3.8")
    program.say({"type": "quit"})
    assert program.hear()["type"] == "bye"


def test_datagrams_leave_from_the_port_that_is_asked_for_time_after_time(
    any_program: Any, late: int
) -> None:
    """From a port of their own else; a port that somebody else has breaks the attempt."""
    with loopback.local(socket.SOCK_DGRAM) as free, loopback.local(socket.SOCK_DGRAM) as taken:
        own, others = free.getsockname()[1], taken.getsockname()[1]
        free.close()
        for turn in range(2):
            any_program.say(
                batch(f"b{turn}", attempt("udp", late, 0, 5000, send="0", from_port=own))
            )
            (seen,) = any_program.whole(f"b{turn}")
            assert (seen["verdict"], seen["local"].rpartition(":")[2]) == ("CONNECTED", str(own))
        any_program.say(batch("other", attempt("udp", late, 0, 5000, send="0", from_port=others)))
        assert any_program.whole("other")[0]["verdict"] == "BROKEN"
