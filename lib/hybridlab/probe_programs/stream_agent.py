# SPDX-License-Identifier: Apache-2.0
"""The Windows stream agent's behaviour: the lines of section 8 of docs/probe-protocol.md."""

import asyncio
import errno
import re
from collections.abc import Mapping
from typing import Any

from hybridlab.probe_programs.agent import Lines
from hybridlab.probe_programs.attempts import winsock
from hybridlab.probe_programs.dns import is_address
from hybridlab.probe_programs.recorded import Program
from hybridlab.probe_programs.streams import End, Event, Listener, Opened
from hybridlab.runtime.applet import Process
from hybridlab.runtime.applets import http

NAME = re.compile(r"[A-Za-z0-9.-]{1,64}", re.ASCII)
LONGEST_MS = 10_000_000


class StreamAgent(Lines):
    """A stream agent under way."""

    def __init__(self, process: Process, program: Program, *, beat: float, idle: float) -> None:
        super().__init__(process, program, beat=beat, idle=idle)
        self.ends: list[End] = []
        self.listeners: dict[int, Listener] = {}
        self.watched: set[str | None] = set()
        """Names of the streams whose events are reported; None stands for all streams."""
        self._opening: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Run until ``quit``, the end of the input, or the idle time; then end all streams."""
        try:
            return await super().run()
        finally:
            for task in self._opening:
                task.cancel()
            for listener in self.listeners.values():
                listener.close()
            await asyncio.gather(*(end.close() for end in self.ends))

    def open(self) -> int:
        return sum(end.open for end in self.ends)

    def named(self, message: Mapping[str, Any]) -> Any:
        """Return the stream's name in a line: a text or a whole number."""
        name = message.get("batch")
        return name if isinstance(name, str | int) and not isinstance(name, bool) else None

    async def job(self, kind: Any, batch: Any, message: Mapping[str, Any]) -> None:
        if batch is None:
            raise ValueError("batch must be a text or a whole number")
        match kind:
            case "stream-listen":
                self._answer(batch, port=self._listen(message))
            case "stream-open":
                self._open(batch, message)
            case "stream-report":
                self._answer(batch, ends=[end.report() for end in self._ends_of(message)])
            case "stream-watch":
                ends = [end.report() for end in self._ends_of(message)]
                self.watched.add(message.get("stream"))
                self._answer(batch, ends=ends)
            case "stream-close":
                self._answer(batch, ends=await self._close(message))
            case _:
                raise ValueError(f"type {kind!r} is not known")

    def _answer(self, batch: Any, **fields: Any) -> None:
        self.say("result", batch=batch, **fields)

    def _tell(self, end: End, event: Event) -> None:
        if not self.watched.isdisjoint((end.stream, None)):
            self.say("event", stream=end.stream, side=end.side, **event)

    def _listen(self, message: Mapping[str, Any]) -> int:
        port = _port(message, 0)
        every = _milliseconds(message, "every_ms")
        stall = _milliseconds(message, "stall_ms")
        if port not in self.listeners:
            try:
                sock = http.listen(self.process.net, port)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise ValueError(f"port {port}: {winsock(error)[1]}") from None
                raise ValueError(
                    f"address already in use: port {port} is another program's (AddressAlreadyInUse/10048); "
                    "'netstat -ano' in this pod names its process, port 0 is any free one"
                ) from None
            port = int(sock.getsockname()[1])
            self.listeners[port] = Listener(self.up_ms, self._tell, sock, self.ends.append)
        listener = self.listeners[port]
        listener.every = every
        listener.stall = stall
        return port

    def _open(self, batch: Any, message: Mapping[str, Any]) -> None:
        name = _stream(message)
        host = message.get("host")
        if name is None:
            raise ValueError("stream is missing")
        for field in ("every_ms", "stall_ms", "give_up_ms"):
            _milliseconds(message, field)
        if not isinstance(host, str) or not is_address(host):
            raise ValueError("host must be an IPv4 or IPv6 address")
        _port(message, 1)
        if any(isinstance(end, Opened) and end.stream == name for end in self.ends):
            raise ValueError(f"there is a stream {name!r} already")
        end = Opened(self.up_ms, self._tell, self.process.net, message, self.process.settings)
        end.task = asyncio.create_task(end.run())
        self.ends.append(end)
        task = asyncio.create_task(self._opened(batch, end))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _opened(self, batch: Any, end: Opened) -> None:
        self._answer(batch, ends=[await asyncio.shield(end.decided)])

    def _ends_of(self, message: Mapping[str, Any]) -> list[End]:
        name = _stream(message)
        return [end for end in self.ends if name is None or end.stream == name]

    async def _close(self, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        how = message.get("how", "fin")
        if how not in ("fin", "rst"):
            raise ValueError("how must be fin or rst")
        reports = []
        for end in self._ends_of(message):
            if how == "rst":
                await end.abort()
            reports.append(end.report())
            self.ends.remove(end)
            await end.close()
        return reports


def _stream(message: Mapping[str, Any]) -> str | None:
    name = message.get("stream")
    if name is not None and not (isinstance(name, str) and NAME.fullmatch(name)):
        raise ValueError("stream must be 1 to 64 letters, digits, dots and hyphens")
    return name


def _port(message: Mapping[str, Any], least: int) -> int:
    port = message.get("port")
    if not isinstance(port, int) or isinstance(port, bool) or not least <= port <= 65535:
        raise ValueError(f"port must be a whole number from {least} to 65535")
    return port


def _milliseconds(message: Mapping[str, Any], field: str) -> float:
    value = message.get(field)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= LONGEST_MS:
        raise ValueError(f"{field} must be a number above 0 and up to {LONGEST_MS}")
    return float(value)
