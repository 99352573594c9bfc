# SPDX-License-Identifier: Apache-2.0
"""Ends of streams as section 8 of docs/probe-protocol.md describes them, with sockets created in
the pod.

Each end has three tasks: one reads, one sends heartbeats, and one detects silence.
"""

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybridlab.probe_programs.attempts import SECOND_LOOK, Expired, TwoLooks, place, winsock
from hybridlab.runtime.applet import Net
from hybridlab.runtime.applets.refusals import heard_late

GREETING = re.compile(r"(stream|again) ([A-Za-z0-9.-]{1,64})", re.ASCII)
KEPT = 200
LINE_LIMIT = 4096
"""A line of more bytes does not belong to the protocol."""
STRANGERS = 512
"""The maximum number of accepted connections that have sent nothing yet; beyond it, the oldest
connection is reset."""
TICK = 0.01
"""The interval, in seconds, of checks for interruptions of streams."""

Clock = Callable[[], float]
"""Returns the milliseconds since the agent started."""
Event = dict[str, Any]
Tell = Callable[["End", Event], None]
"""Called with each event of a stream's end when it happens."""


class Over(Exception):
    """A connection is over: its verdict and the system's error text."""

    def __init__(self, verdict: str, detail: str) -> None:
        super().__init__(verdict)
        self.verdict = verdict
        self.detail = detail


class Lines:
    """A connected socket that sends and receives lines."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reset = False
        """True: the connection is closed by a RST."""
        self._rest = b""

    async def say(self, text: str) -> None:
        """Send a line.  Raise Over."""
        try:
            await asyncio.get_running_loop().sock_sendall(self.sock, text.encode("ascii") + b"\n")
        except OSError as error:
            raise _lost(error) from None

    async def hear(self) -> str:
        """Return the next received line. Raise Over."""
        while b"\n" not in self._rest:
            try:
                data = await asyncio.get_running_loop().sock_recv(self.sock, 65536)
            except OSError as error:
                raise _lost(error) from None
            if not data:
                raise Over("CLOSED", "the peer closed in order")
            self._rest += data
            if len(self._rest) > LINE_LIMIT:
                raise Over("BROKEN", "the peer speaks no stream protocol")
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("latin-1")

    def close(self, *, reset: bool = False) -> None:
        """Close the connection regularly, or by a RST; idempotent."""
        if self.sock.fileno() >= 0:
            if reset or self.reset:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                # closing a socket with unread data would send a RST
                with contextlib.suppress(OSError):
                    self.sock.shutdown(socket.SHUT_WR)
                    for _ in range(16):
                        self.sock.recv(65536)
            self.sock.close()


def _verdict(ends: Sequence[BaseException | None]) -> Over | None:
    """Return how a connection ended, if it was not closed regularly; raise any other exception."""
    for end in ends:
        if end is not None and not isinstance(end, Over):
            raise end
    overs = [end for end in ends if isinstance(end, Over)]
    return next((end for end in overs if end.verdict != "CLOSED"), overs[0] if overs else None)


class End:
    """An end of a stream."""

    def __init__(
        self, clock: Clock, tell: Tell, *, side: str, stream: str, every: float, stall: float
    ) -> None:
        """Set up the end. ``every`` and ``stall`` are in ms."""
        self.clock = clock
        self.side = side
        self.stream = stream
        self.every = every
        self.stall = stall
        self._tell = tell
        self.verdict = self.detail = self.local = self.remote = ""
        self.lines: Lines | None = None
        self.sent = self.heard = 0
        self.heard_at = clock()
        self.open = self.stalled = False
        self.events: list[Event] = []
        self.task: asyncio.Task[None] | None = None
        self.settled = asyncio.Event()
        """Set when the end is over."""
        self._decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def note(self, event: str, detail: str = "") -> None:
        kept = {
            "at_ms": self.clock(),
            "event": event,
            "detail": detail,
            "sent": self.sent,
            "heard": self.heard,
        }
        self._tell(self, kept)
        self.events.append(kept)
        if len(self.events) > KEPT:
            del self.events[KEPT // 2]

    def decide(self) -> None:
        """Record that the end has received its first heartbeat, or is over; called at least
        once."""

    def take(self, lines: Lines) -> None:
        self.lines = lines
        self.local = place(lines.sock.getsockname())
        self.remote = place(lines.sock.getpeername())

    async def live(self, first: str | None = None) -> None:
        """Exchange heartbeats until the connection is over; ``first`` is the heartbeat that was
        already received."""
        assert self.lines is not None
        self.open = True
        self.heard_at = self.clock()
        self.note("opened", f"{self.local} to {self.remote}")
        work = [
            asyncio.create_task(coroutine)
            for coroutine in (self._read(first), self._send(), self._watch())
        ]
        over: Over | None = None
        try:
            await asyncio.wait({*work, self._decided}, return_when=asyncio.FIRST_COMPLETED)
            over = _verdict([one.exception() for one in (self._decided, *work) if one.done()])
        finally:  # after a RST that ended the sending, the reading ends with an end-of-file
            for task in work:
                task.cancel()
            await asyncio.gather(
                *work, return_exceptions=True
            )  # the socket may be closed only when no task waits for it
            self.lines.close(reset=over is not None and over.verdict == "ABORTED")
        if over is not None:
            self.ended(over)

    def ended(self, over: Over) -> None:
        self.open = False
        self.verdict = over.verdict
        self.detail = over.detail
        self.note("ended", f"{over.verdict} {over.detail}")
        self.decide()
        self.settled.set()

    async def abort(self) -> None:
        """Abort the connection with a RST, on command."""
        if self.open and not self._decided.done():
            self._decided.set_exception(Over("ABORTED", "as told"))
            await self.settled.wait()

    async def close(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    def report(self) -> dict[str, Any]:
        verdict = self.verdict or (
            "STALLED" if self.stalled else "SURVIVED" if self.open else "OPENING"
        )
        return {
            "stream": self.stream,
            "side": self.side,
            "verdict": verdict,
            "detail": self.detail,
            "local": self.local,
            "remote": self.remote,
            "sent": self.sent,
            "heard": self.heard,
            "events": list(self.events),
            "quiet_ms": round(self.clock() - self.heard_at) if self.open else None,
        }

    async def _send(self) -> None:
        assert self.lines is not None
        due = self.clock()
        while True:
            self.sent += 1
            # waits while the peer reads nothing, so that no further heartbeat is sent
            await self.lines.say(str(self.sent))
            due = max(due + self.every, self.clock())
            await asyncio.sleep((due - self.clock()) / 1000)

    async def _read(self, line: str | None) -> None:
        assert self.lines is not None
        while True:
            line = await self.lines.hear() if line is None else line
            if line != str(self.heard + 1):
                raise Over("BROKEN", f"heartbeat {line[:40]!r} after {self.heard}")
            quiet = self.clock() - self.heard_at
            self.heard += 1
            self.heard_at = self.clock()
            line = None
            if self.stalled:
                self.stalled = False
                self.note("resumed", f"after {quiet:.0f} ms")
            self.decide()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(max(TICK, (self.heard_at + self.stall - self.clock()) / 1000))
            # data that has arrived is read before the silence is reported
            await asyncio.sleep(SECOND_LOOK)
            quiet = self.clock() - self.heard_at
            if quiet >= self.stall and not self.stalled:
                self.stalled = True
                self.note("stalled", f"no heartbeat for {quiet:.0f} ms")


class Opened(End):
    """The end of a stream that connects. After an interruption it tries new connections until a
    connection works."""

    def __init__(
        self,
        clock: Clock,
        tell: Tell,
        net: Net,
        job: Mapping[str, Any],
        settings: Mapping[str, float | str | int],
    ) -> None:
        super().__init__(
            clock,
            tell,
            side="opened",
            stream=str(job["stream"]),
            every=float(job["every_ms"]),
            stall=float(job["stall_ms"]),
        )
        self.net = net
        self.target = (str(job["host"]), int(job["port"]))
        self.give_up = float(job["give_up_ms"]) / 1000
        self.settings = settings
        self.decided: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        """The stream's state, once the stream is open or has failed."""
        self.interrupted_at: float | None = None
        self.recovered: float | None = None
        self.tries = 0

    async def run(self) -> None:
        recovering = asyncio.create_task(self._recover())
        try:
            try:
                lines, first = await self._greet("stream")
            except Over as over:
                self.ended(over)
                return
            try:
                self.take(lines)
            except OSError as error:  # after an immediate reset the socket has no addresses
                lines.close()
                self.ended(_lost(error))
                return
            await self.live(first)
            await recovering
        finally:
            self.decide()
            recovering.cancel()

    def decide(self) -> None:
        """Set the verdict; only the first call counts."""
        if not self.decided.done():
            self.decided.set_result(self.report())

    def report(self) -> dict[str, Any]:
        after = (
            None
            if self.recovered is None or self.interrupted_at is None
            else round(self.recovered - self.interrupted_at)
        )
        return {**super().report(), "recovered_ms": after, "recovery_tries": self.tries}

    async def _greet(self, word: str) -> tuple[Lines, str]:
        """Return a new connection on which greetings were exchanged, and its first heartbeat. Raise
        Over."""
        lines: Lines | None = None
        sock = self.net.socket(
            socket.AF_INET6 if ":" in self.target[0] else socket.AF_INET, socket.SOCK_STREAM
        )
        try:
            try:
                async with TwoLooks(self.give_up):
                    connecting = asyncio.get_running_loop().sock_connect(sock, self.target)
                    await heard_late(connecting, self.settings)
            except Expired:
                raise Over("TIMED_OUT", "no answer to the first packet") from None
            except OSError as error:
                raise Over(*winsock(error)) from None
            try:
                lines = Lines(sock)
                async with TwoLooks(self.give_up):
                    await lines.say(f"{word} {self.stream}")
                    first = await lines.hear()
            except Expired:
                raise Over(
                    "NO_ANSWER" if word == "stream" else "TIMED_OUT", "no heartbeat"
                ) from None
            except OSError as error:
                raise _lost(error) from None
            if word == "again" and first != "1":
                raise Over("BROKEN", repr(first[:40]))
            return lines, first
        except BaseException:
            sock.close()
            raise

    async def _recover(self) -> None:
        while self.recovered is None:
            await asyncio.sleep(TICK)
            over = bool(self.verdict)
            if self.open and not self.stalled:
                self.interrupted_at = None
            elif self.interrupted_at is None and (self.stalled or over):
                self.interrupted_at = self.clock()
            if self.interrupted_at is not None:
                await self._try_again()

    async def _try_again(self) -> None:
        self.tries += 1
        trying = asyncio.create_task(self._greet("again"))
        try:
            while not trying.done():
                await asyncio.wait({trying}, timeout=TICK)
                if self.open and not self.stalled:  # the stream resumed
                    return
            trying.result()[0].close()
            self.recovered = self.clock()
            self.note("recovered", f"a new connection works, try {self.tries}")
        except Over as over:
            self.note("tried", f"{over.verdict} {over.detail}")
            await asyncio.sleep(self.every / 1000)
        finally:
            if not trying.cancel() and not trying.cancelled() and trying.exception() is None:
                trying.result()[0].close()


class Listener:
    """A port on which streams are accepted."""

    def __init__(
        self, clock: Clock, tell: Tell, sock: socket.socket, joined: Callable[[End], None]
    ) -> None:
        """Set up the listener. ``joined`` is called for each stream that is accepted."""
        self.clock = clock
        self.sock = sock
        self._tell = tell
        self._joined = joined
        self.every = self.stall = 0.0
        self._strangers: dict[asyncio.Task[None], Lines] = {}
        """Connections that have sent nothing yet, in the order in which they came."""
        self._tasks = {asyncio.create_task(self._accept())}

    def close(self) -> None:
        """Stop accepting, and end accepted connections."""
        for task in list(self._tasks):
            task.cancel()

    async def _accept(self) -> None:
        with self.sock:  # the socket may be closed only when no task waits for it any more
            await self._accept_all()

    async def _accept_all(self) -> None:
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(self.sock)
            try:
                lines = Lines(sock)
            except OSError:  # the client is already gone
                sock.close()
                continue
            task = asyncio.create_task(self._serve(lines))
            self._tasks.add(task)
            self._strangers[task] = lines
            task.add_done_callback(self._gone)
            # let the task begin: a task that is cancelled before its begin would close nothing
            await asyncio.sleep(0)
            if len(self._strangers) > STRANGERS:
                oldest = next(iter(self._strangers))
                self._strangers.pop(oldest).reset = True
                oldest.cancel()

    def _gone(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._strangers.pop(task, None)

    async def _serve(self, lines: Lines) -> None:
        with contextlib.closing(lines), contextlib.suppress(Over):
            while match := GREETING.fullmatch(await lines.hear()):
                if match[1] == "again":
                    await lines.say("1")
                    continue
                end = End(
                    self.clock,
                    self._tell,
                    side="accepted",
                    stream=match[2],
                    every=self.every,
                    stall=self.stall,
                )
                try:
                    end.take(lines)
                except OSError:  # the client is already gone
                    return
                end.task = asyncio.current_task()
                if end.task is not None:
                    self._strangers.pop(end.task, None)
                self._joined(end)
                await end.live()
                return


def _lost(error: OSError) -> Over:
    """Return how an open connection ended. If neither a RST nor a FIN arrived, the operating system
    at this end aborted it."""
    verdict, detail = winsock(error)
    return Over(verdict if verdict in ("RESET", "BROKEN") else "ABORTED", detail)
