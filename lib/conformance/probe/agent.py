# SPDX-License-Identifier: Apache-2.0
"""A long-lived agent in one pod: started by exec, asked in batches, watched by its heartbeat.

It does not retry: every failure ends as ProbeBroken, and the agent is dead afterwards. Only
:meth:`Agent.greet` and :meth:`Agent.request` wait for an answer. Results of attempts are passed to
callbacks.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from conformance.errors import ProbeBroken
from conformance.kube import channels
from conformance.kube.client import Kube
from conformance.kube.streaming import ExecEnd, ExecStream
from conformance.kube.transcript import Transcript
from conformance.model.endpoint import Workload
from conformance.probe import protocol
from conformance.probe.asking import Inbox, Pending
from conformance.probe.clocks import AgentClock

KEEP_ALIVE = 60.0
"""An agent that got no line for this many seconds gets a ping, because an agent exits by itself
after 120 s without a line."""

Document = dict[str, Any]


class AgentRefused(ProbeBroken):
    """The agent cannot start, is not this suite's program, or cannot carry out the line: another
    attempt would not help."""


Results = Sequence[tuple[Pending, Document]]
"""Attempts with their results, in the order in which they ended."""


@dataclass(eq=False)
class _Line:
    """Attempts of an Asking that are sent in one line, as a batch of the protocol."""

    left: dict[int, Pending]
    """The attempts in the line that have no result yet, by their numbers in the line."""
    within: float
    """Seconds for the answer after the line was sent. An agent that sends nothing, not even a
    heartbeat, is given up earlier."""
    inbox: Inbox
    name: str = ""
    sent: float = 0.0
    cancelled: bool = False

    def take(self, results: Any, left: Any) -> Results | None:
        """Remove the attempts that have results, and return them with the results. None: the
        results do not match the attempts."""
        if not isinstance(results, list):
            return None
        numbers = [result.get("id") for result in results]
        distinct = len(set(numbers)) == len(numbers) and self.left.keys() >= set(numbers)
        if not distinct or left != len(self.left) - len(numbers):
            return None
        return [
            (self.left.pop(number), result) for number, result in zip(numbers, results, strict=True)
        ]


class Agent:
    """A live agent. Thread-safe: several batches may be under way."""

    _clocks = itertools.count(1)

    def __init__(
        self,
        kube: Kube,
        workload: Workload,
        transcript: Transcript,
        program: protocol.Program,
        silence: float,
        *,
        on_results: Callable[[Results, protocol.When], None],
        on_broken: Callable[[Sequence[Pending], ProbeBroken], None],
    ) -> None:
        """Open the exec; it ends if nothing arrives for ``silence`` seconds. Call :meth:`greet`
        next.

        ``on_results`` and ``on_broken`` are called from any thread, and must be quick.
        ``on_broken`` receives the attempts that will get no more results. Raise ExecBroken
        (ProbeBroken) if the exec cannot be opened.
        """
        self.workload = workload
        self.program = program
        self.held: set[str] = set()
        """Names of streams that are being watched: an agent that holds streams must not be
        ended."""
        self.left_idle = False
        self.slots = ExitStack()
        """The slots that the agent holds until it is closed."""
        self.clock = AgentClock(
            f"{workload.uid}/{program.name}/{next(self._clocks)}", time.monotonic()
        )
        self._silence = silence
        self._on_results = on_results
        self._on_broken = on_broken
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._hello: Future[Document] = Future()
        self._replies: dict[str, Future[Document]] = {}
        self._lines: dict[str, _Line] = {}
        self._waiting: deque[_Line] = deque()
        self._under_way = 0
        self._most = 1
        """The maximum number of attempts under way. It is half of what the agent can have open at
        once, so that no attempt waits inside the agent."""
        self._noise: list[str] = []
        self._over = ""
        self._heard = self._sent = self.used = time.monotonic()
        self._stream = ExecStream(
            kube,
            workload.namespace,
            workload.pod,
            workload.container,
            self.program.argv,
            on_line=self._line,
            on_end=self._end,
            silence=silence,
            transcript=transcript,
        )

    def greet(self, within: float) -> Document:
        """Wait for the agent's hello and check that the agent is this suite's program. Otherwise
        end the agent and raise ProbeBroken."""
        try:
            hello = self._hello.result(within)
        except FutureTimeout:
            self._give_up(f"it sent no hello within {within:.0f} s")
            raise ProbeBroken(self._broken(), transport=self._over) from None
        problem = protocol.other_program(hello, self.program)
        if problem:
            self._give_up(problem)
            raise AgentRefused(self._broken(), transport=problem)
        self._most = max(1, int(hello.get("open_limit") or 0) // 2)
        return hello

    def begin(self, attempts: Sequence[Pending], within: float) -> bool:
        """Send the first attempts of an Asking, at most half of what the agent can have open at
        once. The other attempts follow later.

        Each line must be answered ``within`` seconds after it was sent. Return False, and send
        nothing, if the agent is dead.
        """
        with self._lock:
            if self._over:
                return False
            for first in range(0, len(attempts), self._most):
                line = attempts[first : first + self._most]
                self._waiting.append(_Line(dict(enumerate(line)), within, line[0].inbox))
            self.used = time.monotonic()
        self._send_waiting()
        return True

    def holds_back(self, inbox: Inbox) -> bool:
        """Return whether attempts of an Asking have not been sent yet."""
        with self._lock:
            return any(line.inbox is inbox for line in self._waiting)

    def cancel(self, inbox: Inbox) -> None:
        """End all attempts of an Asking. A callback for them may still be running in another
        thread."""
        with self._lock:
            self._waiting = deque(line for line in self._waiting if line.inbox is not inbox)
            lines = [
                line for line in self._lines.values() if line.inbox is inbox and not line.cancelled
            ]
            for line in lines:
                line.cancelled = True
        for line in lines:
            self._say(protocol.cancel_line(line.name))

    def request(self, line: Callable[[str], bytes], within: float) -> Document:
        """Send the line that ``line`` makes from a new batch's name; return the answer within this
        number of seconds.

        A silent agent is given up earlier. Raise ProbeBroken (died, silent, cut, garbled) or
        AgentRefused.
        """
        name = f"b{next(self._numbers)}"
        future = Future[Document]()
        with self._lock:
            if self._over:
                raise ProbeBroken(self._broken(), transport=self._over)
            self._replies[name] = future
        asked = time.monotonic()
        self._say(line(name))
        try:
            document = future.result(within)
        except FutureTimeout:
            self._give_up(f"batch {name} was not answered within {within:.0f} s")
            document = future.result()
        self.used = time.monotonic()
        if isinstance(up := document.get("up_ms"), int | float):
            self.clock.record_begin(up / 1000, asked)
        return document

    def look(self) -> None:
        """Give up the agent if it is silent, or has not answered in time. This must be called
        regularly."""
        now = time.monotonic()
        with self._lock:
            if self._over or not (self._lines or self._replies):
                return
            late = next(
                (line for line in self._lines.values() if now >= line.sent + line.within), None
            )
            quiet = now - self._heard
        if late is not None:
            self._give_up(f"batch {late.name} was not answered within {late.within:.0f} s")
        elif quiet > self._silence:
            self._give_up(f"nothing was received from it for {quiet:.0f} s, not even its heartbeat")

    @property
    def alive(self) -> bool:
        return not self._over

    @property
    def busy(self) -> bool:
        """Return whether attempts or requests are under way, or a stream is held."""
        return bool(self._lines or self._waiting or self._replies or self.held)

    def close(self) -> None:
        """Tell the agent to quit; idempotent."""
        with self._lock:
            self._over = self._over or "closed by the suite"
        self._stream.send(b'{"type":"quit"}')
        self._stream.close()
        self.slots.close()

    def _send_waiting(self) -> None:
        """Send waiting attempts, in order, while there is room."""
        while True:
            with self._lock:
                if (
                    self._over
                    or not self._waiting
                    or self._under_way + len(self._waiting[0].left) > self._most
                ):
                    return
                line = self._waiting.popleft()
                line.name = f"b{next(self._numbers)}"
                line.sent = time.monotonic()
                self._lines[line.name] = line
                self._under_way += len(line.left)
                specs = [attempt.spec for attempt in line.left.values()]
            self._say(protocol.batch_line(line.name, specs))

    def _say(self, line: bytes) -> None:
        self._sent = time.monotonic()
        self._stream.send(line)

    def _give_up(self, why: str) -> None:
        """Declare the agent dead, and end its exec without waiting: its answers can no longer be
        trusted."""
        self._fail(why)
        threading.Thread(target=self._stream.close, args=(0.0,), daemon=True).start()

    def _fail(self, why: str, kind: type[ProbeBroken] = ProbeBroken) -> None:
        with self._lock:
            self._over = self._over or why
            replies = list(self._replies.values())
            self._replies = {}
            lines = [*self._lines.values(), *self._waiting]
            self._lines = {}
            self._under_way = 0
            self._waiting.clear()
        for future in [*replies, self._hello]:
            if not future.done():
                future.set_exception(kind(self._broken(), transport=self._over))
        left = [attempt for line in lines if not line.cancelled for attempt in line.left.values()]
        if left:
            self._on_broken(left, kind(self._broken(), transport=self._over))

    def _broken(self) -> str:
        noise = f"; it also wrote {' / '.join(self._noise)!r}" if self._noise else ""
        rest = (
            self._stream.unfinished[:80].decode(errors="backslashreplace")
            if hasattr(self, "_stream")
            else ""
        )
        cut = f"; its last line was cut short: {rest!r}" if rest else ""
        return f"agent {self.program.name} in {self.workload.label} broke: {self._over}{cut}{noise}"

    def _line(self, line: bytes) -> None:
        self._heard = time.monotonic()
        try:
            document = protocol.read_line(line)
        except protocol.Garbled as garbled:
            self._give_up(str(garbled))
            return
        if document is None:
            self._noise = [*self._noise, line.decode(errors="backslashreplace")][-10:]
            return
        up = document.get("up_ms")
        if isinstance(up, int | float):
            self.clock.record_line(up / 1000, self._heard)
        match document["type"]:
            case "hello":
                if not self._hello.done():
                    self._hello.set_result(document)
            case "beat":
                if self._heard - self._sent > KEEP_ALIVE:
                    self._say(b'{"type":"ping"}')
            case "results":
                self._results(str(document.get("batch")), document)
            case "result":
                with self._lock:
                    future = self._replies.pop(str(document.get("batch")), None)
                if future is not None:
                    future.set_result(document)
            case "error":
                self._refuse(str(document.get("batch")), str(document.get("message")))
            case "bye":
                self.left_idle = document.get("reason") == "idle"
                with self._lock:
                    self._over = self._over or f"it left: {document.get('reason')}"

    def _results(self, name: str, document: Document) -> None:
        """Process some results of a batch; its other results may still follow."""
        results: Any = document.get("results")
        with self._lock:
            line = self._lines.get(name)
            if line is None:
                return
            ended = line.take(results, document.get("left"))
            if ended is not None:
                self._under_way -= len(ended)
                self.used = self._heard
                if not line.left:
                    del self._lines[name]
        if ended is None:
            self._give_up(f"its answer to batch {name} does not match: {str(document)[:200]}")
            return
        begins = [
            result["began_ms"]
            for result in results
            if isinstance(result.get("began_ms"), int | float)
        ]
        if begins:
            self.clock.record_begin(min(begins) / 1000, line.sent)
        if not line.cancelled:
            self._on_results(ended, protocol.When(line.sent, self.clock.name, *self.clock.start()))
        self._send_waiting()

    def _refuse(self, name: str, message: str) -> None:
        refused = AgentRefused(
            f"agent in {self.workload.label} refused a batch: {message}", transport=message
        )
        with self._lock:
            future = self._replies.pop(name, None)
            line = self._lines.pop(name, None)
            if line is not None:
                self._under_way -= len(line.left)
        if future is not None:
            future.set_exception(refused)
        elif line is not None:
            if not line.cancelled:
                self._on_broken(list(line.left.values()), refused)
            self._send_waiting()

    def _end(self, end: ExecEnd) -> None:
        parts = [end.problem or f"it exited with status {end.exit_code}"]
        if end.exit_code == 0 and not self._hello.done():
            parts = [
                "another program answered in its place: it sent no hello, and exited with status 0"
            ]
        parts += [f"stderr {end.stderr.strip()[-300:]!r}"] if end.stderr.strip() else []
        self._fail(
            "; ".join(parts),
            AgentRefused if channels.COULD_NOT_START in end.problem else ProbeBroken,
        )
