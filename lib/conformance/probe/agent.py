"""One long-lived agent in one pod: started by exec, asked in batches, watched by its heartbeat.

It knows nothing of retries: whatever breaks ends as ProbeBroken, and the agent is dead afterwards.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from conformance.errors import ProbeBroken
from conformance.kube import channels
from conformance.kube.client import Kube
from conformance.kube.streaming import ExecStream, StreamEnd
from conformance.kube.transcript import Transcript
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Workload
from conformance.probe import protocol

KEEP_ALIVE = 60.0
"""s.  An agent that was not asked for so long is sent a ping: it exits by itself after 120 s without a line."""


class AgentRefused(ProbeBroken):
    """The agent cannot start, is not ours, or cannot carry out the line: asking again would not help."""


class Agent:
    """A live agent.  Thread-safe: several batches may be under way."""

    def __init__(self, kube: Kube, workload: Workload, transcript: Transcript, program: protocol.Program) -> None:
        """Opens the exec.  Raises ExecBroken (ProbeBroken) when that fails; :meth:`greet` must follow."""
        self.workload = workload
        self.program = program
        self.held: set[str] = set()
        """Names of streams that somebody watches: an agent that holds some is not to be ended."""
        self._silence = kube.timings.agent_silence
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._hello: Future[dict[str, Any]] = Future()
        self._pending: dict[str, Future[dict[str, Any]]] = {}
        self._noise: list[str] = []
        self._over = ""
        self.left_idle = False
        self._heard = self.used = time.monotonic()
        self._sent = self._heard
        self._stream = ExecStream(
            kube, workload.namespace, workload.pod, workload.container, self.program.argv,
            on_line=self._line, on_end=self._end, transcript=transcript,
        )  # fmt: skip

    def greet(self, within: float) -> dict[str, Any]:
        """Wait for its hello and check that it is our program.  Raises ProbeBroken, and ends the agent."""
        try:
            hello = self._hello.result(within)
        except FutureTimeout:
            self._give_up(f"it did not say hello within {within:.0f} s")
            raise ProbeBroken(self._broken(), transport=self._over) from None
        problem = protocol.stranger(hello, self.program)
        if problem:
            self._give_up(problem)
            raise AgentRefused(self._broken(), transport=problem)
        return hello

    def ask(self, attempts: Sequence[Attempt], within: float) -> list[dict[str, Any]]:
        """Results of ``attempts``, in their order.

        ``within`` bounds all of it; an agent that says nothing at all (no heartbeat) is given up earlier.  Raises
        ProbeBroken: died, silent, cut, garbled; AgentRefused.
        """
        document = self.request(lambda batch: protocol.batch_line(batch, attempts), within)
        results = document.get("results")
        if not isinstance(results, list) or [one.get("id") for one in results] != list(range(len(attempts))):
            self._give_up(f"its answer to batch {document.get('batch')} does not match: {str(document)[:200]}")
            raise ProbeBroken(self._broken(), transport=self._over)
        return results

    def request(self, line: Callable[[str], bytes], within: float) -> dict[str, Any]:
        """What it answers to the line that is made with a new batch's name; bounded and broken as :meth:`ask`."""
        batch, future = f"b{next(self._numbers)}", Future[dict[str, Any]]()
        with self._lock:
            if self._over:
                raise ProbeBroken(self._broken(), transport=self._over)
            self._pending[batch] = future
        self._say(line(batch))
        end = time.monotonic() + within
        while True:
            try:
                document = future.result(max(0.0, min(self._silence / 4, end - time.monotonic())))
                break
            except FutureTimeout:
                quiet = time.monotonic() - self._heard
                if time.monotonic() >= end:
                    self._give_up(f"batch {batch} was not answered within {within:.0f} s")
                elif quiet > self._silence:
                    self._give_up(f"nothing was heard from it for {quiet:.0f} s, not even its heartbeat")
        self.used = time.monotonic()
        return document

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return not self._over

    @property
    def busy(self) -> bool:
        """Whether a batch is under way or a stream is held."""
        return bool(self._pending or self.held)

    def close(self) -> None:
        """Tell it to quit; idempotent."""
        with self._lock:
            self._over = self._over or "closed by the suite"
        self._stream.send(b'{"type":"quit"}')
        self._stream.close()

    # --- from the stream's thread ---------------------------------------------------------------------------------

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
        match document["type"]:
            case "hello":
                if not self._hello.done():
                    self._hello.set_result(document)
            case "beat":
                if self._heard - self._sent > KEEP_ALIVE:
                    self._say(b'{"type":"ping"}')
            case "result":
                with self._lock:
                    future = self._pending.pop(str(document.get("batch")), None)
                if future is not None:
                    future.set_result(document)
            case "error":
                with self._lock:
                    future = self._pending.pop(str(document.get("batch")), None)
                text = f"agent in {self.workload.label} refused a batch: {document.get('message')}"
                if future is not None:
                    future.set_exception(AgentRefused(text, transport=str(document.get("message"))))
            case "bye":
                self.left_idle = document.get("reason") == "idle"
                with self._lock:
                    self._over = self._over or f"it left: {document.get('reason')}"

    def _end(self, end: StreamEnd) -> None:
        parts = [end.trouble or f"it exited with status {end.exit_code}"]
        if end.exit_code == 0 and not self._hello.done():
            parts = ["another program answered in its place: it never said hello, and exited with status 0"]
        parts += [f"stderr {end.stderr.strip()[-300:]!r}"] if end.stderr.strip() else []
        self._fail("; ".join(parts), AgentRefused if channels.COULD_NOT_START in end.trouble else ProbeBroken)

    def _say(self, line: bytes) -> None:
        self._sent = time.monotonic()
        self._stream.send(line)

    def _give_up(self, why: str) -> None:
        """Declare it dead and cut it off without waiting: its word can no longer be trusted."""
        self._fail(why)
        threading.Thread(target=self._stream.close, args=(0.0,), daemon=True).start()

    def _fail(self, why: str, kind: type[ProbeBroken] = ProbeBroken) -> None:
        with self._lock:
            self._over = self._over or why
            pending, self._pending = list(self._pending.values()), {}
        for future in [*pending, self._hello]:
            if not future.done():
                future.set_exception(kind(self._broken(), transport=self._over))

    def _broken(self) -> str:
        noise = f"; it also wrote {' / '.join(self._noise)!r}" if self._noise else ""
        rest = self._stream.unfinished[:80].decode(errors="backslashreplace") if hasattr(self, "_stream") else ""
        cut = f"; its last line was cut short: {rest!r}" if rest else ""
        return f"agent {self.program.name} in {self.workload.label} broke: {self._over}{cut}{noise}"
