"""The Windows matrix agent's behaviour: JSON lines in and out, as docs/probe-protocol.md sections 2 to 4 say."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from hybridlab.runtime.applet import Process
from hybridlab.windows.probe_programs.attempts import Attempt
from hybridlab.windows.probe_programs.recorded import PROTOCOL, Program

MARK = b"@@PROBE@@ "
REQUIRED = ("id", "kind", "give_up_ms")


class Agent:
    """One agent under way."""

    def __init__(self, process: Process, program: Program, *, beat: float, idle: float) -> None:
        self.process, self.program = process, program
        self.beat, self.idle = beat, idle
        self.begin = self.last_line = time.monotonic()
        self.batches: set[asyncio.Task[None]] = set()
        self.open = 0
        """Attempts, or ends of streams, that are open."""
        self._writing = asyncio.Lock()

    async def run(self) -> int:
        """Until ``quit``, the end of the input, or the idle time."""
        await self.say(
            type="hello", protocol=PROTOCOL, program=self.program.name, sha256=self.program.sha256, os="windows",
            runtime="PowerShell 5.1 (emulated)", hostname=self.process.net.hostname, pid=1,
        )  # fmt: skip
        beating = asyncio.create_task(while_heard(self._beat()))
        try:
            reason = await self._read()
        finally:
            beating.cancel()
            for task in self.batches:
                task.cancel()
        await self.say(type="bye", reason=reason)
        return 0

    async def say(self, **message: Any) -> None:
        """One line of the protocol, whole."""
        async with self._writing:
            await self.process.stdout.write(MARK + json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def up_ms(self) -> float:
        """Milliseconds since it started."""
        return (time.monotonic() - self.begin) * 1000

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.beat)
            await self._say_beat()

    async def _say_beat(self) -> None:
        await self.say(type="beat", up_ms=round(self.up_ms()), open=self.open)

    async def _read(self) -> str:
        while True:
            try:
                line = await asyncio.wait_for(self.process.stdin.readline(), self._patience())
            except TimeoutError:
                if not self.batches and time.monotonic() - self.last_line >= self.idle:
                    return "idle"
                continue
            if not line:
                return "end of input"
            self.last_line = time.monotonic()
            if line.strip() and await self._handle(line):
                return "quit"

    def _patience(self) -> float:
        """Seconds until the agent could be idle; while a batch is under way it asks again after a whole idle time."""
        return self.idle if self.batches else max(0.01, self.idle - (time.monotonic() - self.last_line))

    async def _handle(self, line: bytes) -> bool:
        """Carry out one line; True to quit."""
        number = None
        try:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise ValueError("a line is one JSON object")
            number = message.get("batch")
            match message.get("type"):
                case "quit":
                    return True
                case "ping":
                    await self._say_beat()
                case other:
                    await self._job(other, number, message)
        except ValueError as error:
            await self.say(type="error", batch=number, message=str(error))
        return False

    async def _job(self, kind: Any, number: Any, message: Mapping[str, Any]) -> None:
        """Begin what a line asks for.  Raises ValueError."""
        if kind != "batch":
            raise ValueError(f"type {kind!r} is not known")
        self._start(number, _attempts(message))

    def _start(self, number: Any, attempts: Sequence[Mapping[str, Any]]) -> None:
        task = asyncio.create_task(while_heard(self._batch(number, attempts)))
        self.batches.add(task)
        task.add_done_callback(self.batches.discard)

    async def _batch(self, number: Any, specs: Sequence[Mapping[str, Any]]) -> None:
        begin = time.monotonic()
        self.open += len(specs)
        try:
            attempts = [Attempt(self.process.net, spec, self.process.settings) for spec in specs]
            results = await asyncio.gather(*(attempt.run() for attempt in attempts))
        finally:
            self.open -= len(specs)
        ms = round((time.monotonic() - begin) * 1000, 3)
        self.last_line = time.monotonic()
        await self.say(type="result", batch=number, ms=ms, results=results)


async def while_heard(work: Coroutine[Any, Any, None]) -> None:
    """Work in the background until nobody reads its lines: then the agent's input ends too, and with it the agent."""
    with contextlib.suppress(BrokenPipeError):
        await work


def _attempts(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The attempts of a batch line.  Raises ValueError: nothing of it is tried."""
    attempts = message.get("attempts")
    if not isinstance(attempts, list) or not all(isinstance(one, dict) for one in attempts):
        raise ValueError("attempts is not a list of objects")
    for one in attempts:
        missing = [name for name in REQUIRED if name not in one]
        if one.get("kind") in {"tcp", "http", "udp"}:
            missing += [name for name in ("host", "port") if name not in one]
        if one.get("kind") == "dns" and "query" not in one:
            missing.append("query")
        if missing:
            raise ValueError(f"attempt {one.get('id')!r} lacks {', '.join(missing)}")
    return attempts
