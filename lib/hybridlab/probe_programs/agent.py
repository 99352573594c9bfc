# SPDX-License-Identifier: Apache-2.0
"""The Windows matrix agent's behaviour: JSON lines in and out, as described in
docs/probe-protocol.md sections 2 to 4."""

import asyncio
import contextlib
import json
import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hybridlab.probe_programs import fields
from hybridlab.probe_programs.attempts import Attempt
from hybridlab.probe_programs.recorded import PROTOCOL, Program
from hybridlab.runtime.applet import Process

MARK = b"@@PROBE@@ "
OPEN_LIMIT = 4000
"""The maximum number of attempts at the same time; further attempts wait for their turn."""
BEGINS = 20
"""The maximum number of attempts that are started between two checks of the sockets."""
TOGETHER = 0.002
"""Results of attempts that end within this many seconds share a line: one cycle of the program's
loop takes about as long."""
BATCH = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


class Lines:
    """The common part of both agents: the lines of the protocol in both directions, and the
    decision when the program ends."""

    def __init__(self, process: Process, program: Program, *, beat: float, idle: float) -> None:
        self.process = process
        self.program = program
        self.beat = beat
        self.idle = idle
        self.begin = self.last_line = time.monotonic()
        self.over = ""
        """The reason for which the program ends; empty until it has to end."""
        self._out = asyncio.Queue[bytes | None]()
        self._changed = asyncio.Event()
        """Set when the program may have to end."""

    def hello(self) -> dict[str, Any]:
        """Return the fields of the first line in addition to the fields of every agent's first
        line."""
        return {}

    def open(self) -> int:
        """Return the number of attempts that are under way or waiting; for the stream agent, the
        number of open ends of streams."""
        raise NotImplementedError

    def under_way(self) -> bool:
        """Return whether a batch is under way: the program does not end before its batches are
        finished."""
        return False

    async def job(self, kind: Any, batch: Any, message: Mapping[str, Any]) -> None:
        """Execute a line other than ping and quit. Raise ValueError if the whole line is
        refused."""
        raise NotImplementedError

    def named(self, message: Mapping[str, Any]) -> Any:
        """Return the name of the batch in a line; None if it has no valid name."""
        raise NotImplementedError

    async def run(self) -> int:
        """Run until ``quit``, the end of the input, or the idle time; batches under way are
        finished first."""
        self.say(
            "hello",
            protocol=PROTOCOL,
            program=self.program.name,
            sha256=self.program.sha256,
            os="windows",
            runtime="PowerShell 5.1 (emulated)",
            hostname=self.process.net.hostname,
            pid=1,
            **self.hello(),
        )
        self.last_line = time.monotonic()
        writing, beating, reading = (
            asyncio.create_task(coroutine)
            for coroutine in (self._write(), self._beat(), self._read())
        )
        try:
            while not self.over or self.under_way():
                await self._wait(reading)
            self.say("bye", reason=self.over)
            self._out.put_nowait(None)
            await writing
        finally:
            for task in (writing, beating, reading):
                task.cancel()
            await asyncio.gather(writing, beating, reading, return_exceptions=True)
        return 0

    def say(self, kind: str, **message: Any) -> None:
        """Write a line of the protocol, after all earlier lines; if nobody reads the output, the
        line is lost."""
        whole = {"type": kind, "up_ms": self.up_ms(), **message}
        self._out.put_nowait(MARK + json.dumps(whole, separators=(",", ":")).encode() + b"\n")

    async def _write(self) -> None:
        while (line := await self._out.get()) is not None:
            await self.process.stdout.write(line)

    def up_ms(self) -> float:
        return round((time.monotonic() - self.begin) * 1000, 3)

    def changed(self) -> None:
        """Signal that a batch has ended, or that the program should end."""
        self._changed.set()

    async def _wait(self, reading: asyncio.Task[None]) -> None:
        """Wait until something may have changed; record that the program is idle. Raise the error
        that ended the reading of input, if any."""
        if reading.done() and reading.exception() is not None:
            reading.result()
        left = (
            None if self.over or self.under_way() else self.last_line + self.idle - time.monotonic()
        )
        if left is not None and left <= 0:
            self.over = "idle"
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._changed.wait()
        self._changed.clear()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.beat)
            self._say_beat()

    def _say_beat(self) -> None:
        self.say("beat", open=self.open())

    async def _read(self) -> None:
        try:
            # a last line without a newline is dropped
            while (line := await self.process.stdin.readline()).endswith(b"\n"):
                self.last_line = time.monotonic()
                if line.strip():
                    await self._handle(line)
            self.over = self.over or "end of input"
        finally:
            self.changed()

    async def _handle(self, line: bytes) -> None:
        batch = None
        try:
            message = json.loads(line.decode("ascii"))
            if not isinstance(message, dict):
                raise ValueError("a line is one JSON object")
            batch = self.named(message)
            match message.get("type"):
                case "quit":
                    self.over = self.over or "quit"
                    self.changed()
                case "ping":
                    self._say_beat()
                case other:
                    await self.job(other, batch, message)
        except (ValueError, RecursionError) as error:
            self.say("error", batch=batch, message=str(error))


@dataclass(eq=False)
class Batch:
    """A batch under way."""

    name: str
    left: int
    ended: list[dict[str, Any]] = field(default_factory=list)
    """Results that have not been written yet."""
    running: dict[asyncio.Task[None], Attempt] = field(default_factory=dict)


class Agent(Lines):
    """The matrix agent with its attempts."""

    def __init__(self, process: Process, program: Program, *, beat: float, idle: float) -> None:
        super().__init__(process, program, beat=beat, idle=idle)
        self.batches: dict[str, Batch] = {}
        self.open_limit = int(process.settings.get("windows_probe_open_limit", OPEN_LIMIT))
        self._waiting: deque[tuple[Batch, Mapping[str, Any]]] = deque()
        self._running = 0
        self._telling = False
        self._beginning: asyncio.Task[None] | None = None

    def hello(self) -> dict[str, Any]:
        """Return the maximum number of attempts that the agent makes at the same time."""
        return {"open_limit": self.open_limit}

    def open(self) -> int:
        return sum(batch.left for batch in self.batches.values())

    def under_way(self) -> bool:
        return bool(self.batches)

    def named(self, message: Mapping[str, Any]) -> Any:
        name = message.get("batch")
        return name if isinstance(name, str) and BATCH.fullmatch(name) else None

    async def run(self) -> int:
        """Run as :class:`Lines` does; attempts under way end when the agent is killed."""
        try:
            return await super().run()
        finally:
            for task in [
                self._beginning,
                *(item for each in self.batches.values() for item in each.running),
            ]:
                if task is not None:
                    task.cancel()

    async def job(self, kind: Any, batch: Any, message: Mapping[str, Any]) -> None:
        if kind not in ("batch", "cancel"):
            raise ValueError("type must be batch, cancel, ping or quit")
        if batch is None:
            raise ValueError('batch must be 1 to 64 letters, digits, ".", "_" and "-"')
        known = self.batches.get(batch)
        if kind == "cancel":
            if known is None:
                raise ValueError(f"batch {batch!r} is not under way")
            await self._cancel(known)
        elif self.over:
            raise ValueError(f"batch {batch!r} came after the end")
        elif known is not None:
            raise ValueError(f"batch {batch!r} is still under way")
        else:
            attempts = fields.checked(message.get("attempts"))
            self.batches[batch] = made = Batch(batch, len(attempts))
            self._waiting += [(made, spec) for spec in attempts]
            if attempts:
                self._begin_waiting()
            else:
                self._tell()

    def _begin_waiting(self) -> None:
        if self._beginning is None or self._beginning.done():
            self._beginning = asyncio.create_task(self._begin())

    async def _begin(self) -> None:
        """Start waiting attempts in order while there is room, and check the sockets from time to
        time."""
        begun = 0
        while self._waiting and self._running < self.open_limit:
            batch, spec = self._waiting.popleft()
            attempt = Attempt(self.process.net, spec, self.process.settings, self.begin)
            self._running += 1
            batch.running[asyncio.create_task(self._carry_out(batch, attempt))] = attempt
            begun += 1
            if begun % BEGINS == 0:
                await asyncio.sleep(0)

    async def _carry_out(self, batch: Batch, attempt: Attempt) -> None:
        result = await attempt.run()
        self._running -= 1
        task = asyncio.current_task()
        if task is not None:
            batch.running.pop(task, None)
        batch.ended.append(result)
        batch.left -= 1
        if self._waiting:
            self._begin_waiting()
        if not self._telling:  # attempts that end at about the same moment share one line
            self._telling = True
            asyncio.get_running_loop().call_later(TOGETHER, self._tell)

    async def _cancel(self, batch: Batch) -> None:
        gone = [spec for whose, spec in self._waiting if whose is batch]
        self._waiting = deque(item for item in self._waiting if item[0] is not batch)
        running = list(batch.running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        # attempts that were cancelled before their tasks had begun
        never = list(batch.running.values())
        self._running -= len(never)
        never += [
            Attempt(self.process.net, spec, self.process.settings, self.begin) for spec in gone
        ]
        batch.running.clear()
        batch.ended += [attempt.never_begun() for attempt in never]
        batch.left -= len(never)
        self._tell()
        self._begin_waiting()

    def _tell(self) -> None:
        """Write the attempts that have ended since the last call; forget a batch that has ended."""
        self._telling = False
        for batch in [item for item in self.batches.values() if item.ended or not item.left]:
            results = batch.ended
            batch.ended = []
            if not batch.left:
                del self.batches[batch.name]
                self.last_line = time.monotonic()
                self.changed()
            self.say("results", batch=batch.name, left=batch.left, results=results)
