# SPDX-License-Identifier: Apache-2.0
"""Openings by the PowerShell agents on a machine without a free processor, compared with their
peers' own log.

``python -m tests.contract.under_load`` needs ``pwsh``, and a machine on which nothing else runs. It
makes 10 rounds of 1,200 openings by the agent, by the stream agent, and by the recovery of streams.
A third of the peers answer, a third reset, and a third drop everything; the give-up time is 800 ms.
Meanwhile eight busy loops run, and eight programs are started again and again. It takes about an
hour on two cores.

It ends with status 1 if a verdict contradicts what the peer sent in time, if more than 1 % of a
round are BROKEN, or if any other opening at a peer that drops everything is not TIMED_OUT within 3
s of its time-out. It prints a line with the results of each round.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import selectors
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.contract.conftest import Conversation
from tests.contract.loopback import reset
from tests.contract.processes import Process
from tests.contract.programs import AGENTS, STREAM_AGENTS

GIVE_UP = 0.8
LATEST = 3.0
"""s. The maximum delay of a TIMED_OUT after the time-out of a dropped opening."""
EVERY = 0.2
"""s. The time between two heartbeats, and before each new attempt of a recovery."""
MARGIN = 0.05
"""s. The maximum error of an agent's clock, as known here."""
WAVE = 60
KINDS = ("answering", "resetting", "dropping")
HTTP = b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Peers:
    """The three kinds of peers, and the times at which they sent data."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.listeners = {
            kind: socket.create_server(("127.0.0.1", 0), backlog=512) for kind in KINDS
        }
        self.sent: dict[str, list[float]] = {}
        """Map the name of each opening to the times just after an answer or a reset was sent for
        it."""
        self.held: dict[str, list[socket.socket]] = {kind: [] for kind in KINDS}
        self.own: list[socket.socket] = []
        self.lock = threading.Lock()
        for kind in ("answering", "resetting"):
            self._watch(self.listeners[kind], kind)
        threading.Thread(target=self._run, daemon=True).start()

    def port(self, kind: str) -> int:
        return int(self.listeners[kind].getsockname()[1])

    def _watch(self, sock: socket.socket, kind: str) -> None:
        sock.setblocking(False)
        self.selector.register(sock, selectors.EVENT_READ, kind)

    def drop(self) -> None:
        """Make the third peer drop everything from now on: its queue is full."""
        listener = self.listeners["dropping"]
        with contextlib.suppress(KeyError):
            self.selector.unregister(listener)
        listener.listen(0)
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
            self.own.append(one)
        time.sleep(0.1)

    def accept(self) -> None:
        """Make the third peer accept streams from now on."""
        for one in self.own:
            one.close()
        self.own = []
        self.listeners["dropping"].close()
        self.listeners["dropping"] = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._watch(self.listeners["dropping"], "dropping")

    def break_streams(self) -> None:
        """Reset every stream."""
        with self.lock:
            for held in self.held.values():
                for one in held:
                    with contextlib.suppress(KeyError, ValueError):
                        self.selector.unregister(one)
                    with contextlib.suppress(OSError):
                        reset(one)
                held.clear()

    def _run(self) -> None:
        while True:
            for key, _ in self.selector.select(1):
                with self.lock, contextlib.suppress(OSError, KeyError, ValueError):
                    self._step(key.fileobj, key.data)  # type: ignore[arg-type]

    def _step(self, sock: socket.socket, kind: str) -> None:
        if sock in self.listeners.values():
            self._watch(sock.accept()[0], kind)
            return
        try:
            data = sock.recv(4096)
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(sock)
            sock.close()
            return
        word, _, name = data.partition(b"\n")[0].decode("latin-1").partition(" ")
        if word == "GET":
            self._answer(sock, kind, name.split()[0][1:], HTTP, last=True)
        elif word == "again":
            self._answer(sock, kind, name, b"1\n", last=False)
        elif word == "stream" and kind == "resetting" and not name.startswith("r"):
            self._answer(sock, kind, name, b"", last=True)
        elif word == "stream":
            self.held[kind].append(sock)
            self._answer(sock, "answering", name, b"1\n", last=False)

    def _answer(
        self, sock: socket.socket, kind: str, name: str, data: bytes, *, last: bool
    ) -> None:
        if kind == "resetting":
            self.selector.unregister(sock)
            reset(sock)
        else:
            sock.sendall(data)
            if last:
                self.selector.unregister(sock)
                sock.close()
        self.sent.setdefault(name, []).append(time.monotonic())


@dataclass
class Round:
    """The results of the openings of one kind of agent."""

    verdicts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    latest: float = 0.0
    """s. The longest time from the time-out of a dropped opening to its TIMED_OUT."""

    def add(
        self, kind: str, name: str, verdict: str, *, in_time: bool, late: float, what: Any
    ) -> None:
        """Add the result of an opening. ``late``: the seconds from the time-out of a dropped
        opening to its result."""
        self.verdicts[f"{kind} {verdict}"] += 1
        good = {
            "answering": ("CONNECTED", "SURVIVED", "CLOSED", "RESET"),
            "resetting": ("RESET", "CONNECTED"),
        }
        if verdict == "BROKEN":
            return
        if kind == "dropping":
            self.latest = max(self.latest, late)
            if verdict != "TIMED_OUT" or late > LATEST:
                self.wrong.append(f"{name} dropped: {verdict}, {late:.2f} s after its time: {what}")
        elif in_time and verdict not in good[kind]:
            self.wrong.append(f"{name} {kind}, and had sent in time: {verdict}: {what}")
        elif verdict not in (*good[kind], "TIMED_OUT", "NO_ANSWER"):
            self.wrong.append(f"{name} {kind}: {verdict}: {what}")

    def broken(self) -> float:
        """Return the share of openings that are BROKEN."""
        count = sum(number for what, number in self.verdicts.items() if what.endswith(" BROKEN"))
        return count / max(1, sum(self.verdicts.values()))


class Clock:
    """Converts an agent's milliseconds to this machine's monotonic seconds; the result is never too
    early by more than the margin."""

    def __init__(self, program: Conversation) -> None:
        self.program = program
        self.offset = float("inf")

    def hear(self, **more: Any) -> dict[str, Any]:
        line = self.program.hear(within=120, skip=(), **more)
        self.offset = min(self.offset, time.monotonic() - line["up_ms"] / 1000)
        return line

    def at(self, milliseconds: float) -> float:
        return self.offset + milliseconds / 1000


def in_time(peers: Peers, name: str, begun: float, until: float = float("inf")) -> bool:
    """Return whether the peer sent something before the time-out of an opening that began at
    ``begun`` or later."""
    return any(
        begun <= at <= min(begun + GIVE_UP - MARGIN, until) for at in peers.sent.get(name, ())
    )


def by_the_agent(peers: Peers, round_: Round, count: int) -> None:
    peers.drop()
    with started(AGENTS["pwsh"]) as (program, clock):
        for wave in range(count // WAVE):
            names = [f"m{wave}x{n}" for n in range(WAVE)]
            attempts = [
                {"id": n, "kind": "http", "give_up_ms": GIVE_UP * 1000, "host": "127.0.0.1",
                 "port": peers.port(KINDS[n % 3]), "path": f"/{name}"}
                for n, name in enumerate(names)
            ]  # fmt: skip
            program.say({"type": "batch", "batch": f"b{wave}", "attempts": attempts})
            left = WAVE
            while left:
                line = clock.hear()
                for one in line.get("results", ()):
                    left -= 1
                    name, begun = names[one["id"]], clock.at(one["began_ms"] or 0)
                    late = one["ms"] / 1000 - GIVE_UP
                    sent = in_time(peers, name, begun)
                    round_.add(
                        KINDS[one["id"] % 3],
                        name,
                        one["verdict"],
                        in_time=sent,
                        late=late,
                        what=one,
                    )


def opening(peers: Peers, name: str, kind: str) -> dict[str, Any]:
    where = {"host": "127.0.0.1", "port": peers.port(kind), "give_up_ms": GIVE_UP * 1000}
    times = {"every_ms": EVERY * 1000, "stall_ms": 10_000_000}
    return {"type": "stream-open", "batch": name, "stream": name, **where, **times}


def open_wave(
    peers: Peers, clock: Clock, prefix: str
) -> Iterator[tuple[int, dict[str, Any], float, float]]:
    """Open a wave of streams. Yield, for each stream, its number, its end, and two times between
    which it was begun."""
    said = []
    for n in range(WAVE):
        said.append(time.monotonic())
        clock.program.say(opening(peers, f"{prefix}{n}", KINDS[n % 3]))
        clock.program.say({"type": "ping"})
    begun: list[float] = []
    ends: dict[int, dict[str, Any]] = {}
    while len(begun) < WAVE or len(ends) < WAVE:
        line = clock.hear()
        if line["type"] == "beat":
            begun.append(line["up_ms"])
        elif line["type"] == "result":
            ends[int(line["batch"].removeprefix(prefix))] = line["ends"][0]
    for n in range(WAVE):
        yield n, ends[n], said[n], clock.at(begun[n])


def by_the_stream_agent(peers: Peers, round_: Round, count: int) -> None:
    peers.drop()
    with started(STREAM_AGENTS["pwsh"], beat=3600) as (program, clock):
        for wave in range(count // WAVE):
            prefix = f"s{wave}x"
            for n, end, said, begun in open_wave(peers, clock, prefix):
                ended = clock.at(end["events"][-1]["at_ms"])
                late = ended - begun - GIVE_UP
                sent = in_time(peers, f"{prefix}{n}", said)
                round_.add(
                    KINDS[n % 3], f"{prefix}{n}", end["verdict"], in_time=sent, late=late, what=end
                )
            program.say({"type": "stream-close", "batch": "c"})
            while clock.hear()["type"] != "result":
                pass
            peers.break_streams()


def by_the_recovery(peers: Peers, round_: Round, count: int) -> None:
    with started(STREAM_AGENTS["pwsh"], beat=3600) as (program, clock):
        for wave in range(count // WAVE):
            peers.accept()
            prefix = f"r{wave}x"
            opened = {
                n for n, end, *_ in open_wave(peers, clock, prefix) if end["verdict"] == "SURVIVED"
            }
            peers.drop()
            broken = time.monotonic()
            peers.break_streams()
            left = set(opened)
            while left:
                program.say({"type": "stream-report", "batch": "r"})
                while (line := clock.hear())["type"] != "result":
                    pass
                for end in line["ends"]:
                    n = int(end["stream"].removeprefix(prefix))
                    events = [e for e in end["events"] if e["event"] in ("tried", "recovered")]
                    if n in left and events:
                        left.discard(n)
                        judge_try(peers, round_, clock, kind=KINDS[n % 3], end=end, broken=broken)
                time.sleep(0.2)
            program.say({"type": "stream-close", "batch": "c"})
            while clock.hear()["type"] != "result":
                pass
            peers.break_streams()


def judge_try(
    peers: Peers, round_: Round, clock: Clock, *, kind: str, end: dict[str, Any], broken: float
) -> None:
    """Judge the first new connection of a stream that was reset after ``broken``."""
    ended, tried = next(
        (before, event)
        for before, event in zip(end["events"], end["events"][1:], strict=False)
        if event["event"] in ("tried", "recovered")
    )
    begun = max(broken, clock.at(ended["at_ms"]))
    verdict = "CONNECTED" if tried["event"] == "recovered" else tried["detail"].split()[0]
    late = clock.at(tried["at_ms"]) - begun - GIVE_UP
    sent = in_time(peers, end["stream"], begun, clock.at(tried["at_ms"]))
    round_.add(kind, end["stream"], verdict, in_time=sent, late=late, what=end)


@contextlib.contextmanager
def started(argv: tuple[str, ...], beat: float = 5) -> Iterator[tuple[Conversation, Clock]]:
    program = Conversation((*argv, "-BeatMs", str(int(beat * 1000))))
    clock = Clock(program)
    try:
        clock.hear()
        yield program, clock
    finally:
        program.program.end()


def burn() -> None:
    while True:
        pass


def start_again(over: threading.Event) -> None:
    """Start and end programs again and again, as other workloads of a node do."""
    while not over.is_set():
        program = Process(STREAM_AGENTS["pwsh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert program.popen.stdout
        program.popen.stdout.readline()
        program.end()


@contextlib.contextmanager
def busy(loops: int, starts: int) -> Iterator[None]:
    over = threading.Event()
    burners = [multiprocessing.Process(target=burn, daemon=True) for _ in range(loops)]
    starters = [threading.Thread(target=start_again, args=(over,)) for _ in range(starts)]
    for burner in burners:
        burner.start()
    for starter in starters:
        starter.start()
    try:
        yield
    finally:
        over.set()
        for burner in burners:
            burner.kill()
        for starter in starters:
            starter.join(60)


WAYS = {"agent": by_the_agent, "streams": by_the_stream_agent, "recovery": by_the_recovery}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--openings", type=int, default=1200, help="in each round, by each of the three"
    )
    parser.add_argument("--loops", type=int, default=8)
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument(
        "--by", choices=WAYS, action="append", help="these alone (default: all three)"
    )
    options = parser.parse_args()
    if not shutil.which("pwsh"):
        print("no pwsh on the PATH", file=sys.stderr)
        return 4
    bad = 0
    with busy(options.loops, options.starts):
        for number in range(options.rounds):
            for name in options.by or WAYS:
                begun, round_ = time.monotonic(), Round()
                WAYS[name](Peers(), round_, options.openings)
                good = not round_.wrong and round_.broken() <= 0.01
                bad += not good
                print(
                    f"round {number + 1} {name}: {'good' if good else 'BAD'}, "
                    f"{round_.broken():.2%} BROKEN, "
                    f"latest TIMED_OUT {round_.latest:.2f} s after its time, "
                    f"{time.monotonic() - begun:.0f} s, "
                    f"{json.dumps(dict(sorted(round_.verdicts.items())))}",
                    *round_.wrong[:5],
                    sep="\n  ",
                    flush=True,
                )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
