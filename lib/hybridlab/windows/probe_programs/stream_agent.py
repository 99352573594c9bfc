"""The Windows stream agent's behaviour: the lines of section 8 of docs/probe-protocol.md."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from hybridlab.runtime.applet import Process
from hybridlab.runtime.applets import http
from hybridlab.windows.probe_programs.agent import Agent, while_heard
from hybridlab.windows.probe_programs.recorded import Program
from hybridlab.windows.probe_programs.streams import End, Listener, Opened

NAME = re.compile(r"[A-Za-z0-9.-]{1,64}")


class StreamAgent(Agent):
    """One stream agent under way."""

    def __init__(self, process: Process, program: Program, *, beat: float, idle: float) -> None:
        super().__init__(process, program, beat=beat, idle=idle)
        self.ends: list[End] = []
        self.listeners: dict[int, Listener] = {}
        self._opening: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Until ``quit``, the end of the input, or the idle time; then all streams end."""
        try:
            return await super().run()
        finally:
            for task in self._opening:
                task.cancel()
            for listener in self.listeners.values():
                listener.close()
            await asyncio.gather(*(end.close() for end in self.ends))

    async def _job(self, kind: Any, number: Any, message: Mapping[str, Any]) -> None:
        match kind:
            case "stream-listen":
                await self._answer(number, port=self._listen(message))
            case "stream-open":
                self._open(number, message)
            case "stream-report":
                await self._answer(number, ends=[end.report() for end in self._named(message)])
            case "stream-close":
                await self._answer(number, ends=await self._close(message))
            case _:
                raise ValueError(f"type {kind!r} is not known")

    async def _answer(self, number: Any, **fields: Any) -> None:
        self.open = sum(end.open for end in self.ends)
        await self.say(type="result", batch=number, up_ms=round(self.up_ms(), 1), **fields)

    async def _say_beat(self) -> None:
        self.open = sum(end.open for end in self.ends)
        await super()._say_beat()

    def _listen(self, message: Mapping[str, Any]) -> int:
        port, every, stall = (
            _number(message, "port", least=0),
            _number(message, "every_ms"),
            _number(message, "stall_ms"),
        )
        if port not in self.listeners:
            try:
                sock = http.listen(self.process.net, int(port))
            except OSError as error:
                raise ValueError(f"port {port:.0f}: {error}") from None
            port = int(sock.getsockname()[1])
            self.listeners[port] = Listener(self.up_ms, sock, self.ends.append)
        listener = self.listeners[int(port)]
        listener.every, listener.stall = every, stall
        return int(port)

    def _open(self, number: Any, message: Mapping[str, Any]) -> None:
        name = str(message.get("stream"))
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name for a stream")
        if any(isinstance(end, Opened) and end.stream == name for end in self.ends):
            raise ValueError(f"there is a stream {name!r} already")
        for field in ("port", "every_ms", "stall_ms", "give_up_ms"):
            _number(message, field)
        ipaddress.ip_address(str(message.get("host")))
        end = Opened(self.up_ms, self.process.net, message, self.process.settings)
        end.task = asyncio.create_task(end.run())
        self.ends.append(end)
        task = asyncio.create_task(while_heard(self._opened(number, end)))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _opened(self, number: Any, end: Opened) -> None:
        await end.decided.wait()
        await self._answer(number, ends=[end.report()])

    def _named(self, message: Mapping[str, Any]) -> list[End]:
        name = message.get("stream")
        return [end for end in self.ends if name is None or end.stream == name]

    async def _close(self, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        how = message.get("how") or "fin"
        if how not in ("fin", "rst"):
            raise ValueError("how must be fin or rst")
        reports = []
        for end in self._named(message):
            if how == "rst":
                await end.abort()
            reports.append(end.report())
            self.ends.remove(end)
            await end.close()
        return reports


def _number(message: Mapping[str, Any], field: str, *, least: float = 1) -> float:
    value = message.get(field)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
        raise ValueError(f"{field} must be {least:.0f} or more, not {value!r}")
    return value
