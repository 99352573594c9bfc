# SPDX-License-Identifier: Apache-2.0
"""The line between the cluster and labd: JSON lines with descriptors over an inherited socketpair,
on asyncio.

Both ends are the same :class:`Channel`. Each end may call methods of the other end, send events and
pass descriptors (SCM_RIGHTS). An end-of-file from one end closes both.

Methods without descriptors are called through a Protocol (``kernel.rpc``), which uses this module.
Calling (from the cluster)::

    result = await channel.call("Containers.start", {"spec": spec})       # spec may be a dataclass
    result = await channel.call("ContainerStreams.exec", {"spec": spec}, fds=(stdin, stdout, stderr))
    result, fds = await channel.call_fds("sandbox.socket", {...})         # the answer brings descriptors

``call`` sends copies of ``fds``; the caller keeps its own descriptors open. Cancelling the awaiting
task cancels the handler at the other end. A refusal arrives as :class:`CallFailed` with the other
end's words.

Answering (in labd)::

    async def start(params: Any, fds: list[int]) -> object: ...
    channel.register("Containers.start", start)
    channel.emit("Containers.exit", event)                                # unsolicited, no answer

A handler owns the descriptors it receives and closes them. It returns anything orjson can write
(dataclasses too), or :class:`DescriptorReply` to send descriptors back, which are closed here once
sent. A handler refuses by raising :class:`Refused` (or KernelError, ShapeError). Any other
exception is a defect: it is answered in the same way, and its traceback is logged.

On the wire each line is an object: ``{id, method, params, fds}``, ``{id, result, fds}``, ``{id,
error: {kind, message}}``, ``{cancel: id}`` or ``{event, params}``. ``fds`` counts the descriptors
that belong to the line; they arrive with its first byte or earlier, so a first-in-first-out queue
pairs them.
"""

import array
import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from hybridlab.kernel import open_files
from hybridlab.kernel.errors import KernelError
from hybridlab.kernel.shapes import ShapeError

CallHandler = Callable[[Any, list[int]], Awaitable[object]]
"""``async def handler(params, fds) -> result``."""

_log = logging.getLogger(__name__)
_CHUNK = 256 * 1024
_END = "channel.end"
_MAX_FDS = 253
"""The kernel's SCM_MAX_FD: the maximum number of descriptors in one message."""
_FD_SPACE = socket.CMSG_SPACE(_MAX_FDS * array.array("i").itemsize)


class Refused(Exception):
    """A handler's refusal of a call: its message is sent to the caller."""


class CallFailed(Exception):
    """The other side refused the call or failed. ``kind`` is the class name of the exception there;
    the message is that of this exception."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class ChannelClosed(CallFailed):
    """A call on a channel whose other side is dead."""

    def __init__(self, message: str) -> None:
        super().__init__("ChannelClosed", message)


@dataclass(frozen=True)
class DescriptorReply:
    """A result with descriptors; they are closed on this side once they are sent."""

    result: object
    fds: Sequence[int] = ()


class Channel:
    """One end of the channel; create it in a running event loop."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        peer: str,
        handlers: Mapping[str, CallHandler] | None = None,
        on_event: Callable[[str, Any], None] | None = None,
    ) -> None:
        self.peer = peer
        """The name of the process at the other end, for messages."""
        self.on_event = on_event
        """Called with (event, params) for each unsolicited event."""
        self._handlers: dict[str, CallHandler] = dict(handlers or {})
        self._sock = sock
        self._sock.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, asyncio.Future[tuple[Any, list[int]]]] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._next_id = 0
        self._unread = bytearray()
        self._received_fds: deque[int] = deque()
        self._unsent: deque[tuple[memoryview, list[int]]] = deque()
        self._closed: asyncio.Future[str] = self._loop.create_future()
        self._loop.add_reader(self._sock, self._readable)

    async def call(self, method: str, params: object = None, *, fds: Sequence[int] = ()) -> Any:
        """Call the other side and return its result; descriptors in the answer are closed.

        Raise :class:`CallFailed` with the other side's message, :class:`ChannelClosed` if the other
        side is gone.
        """
        result, received = await self.call_fds(method, params, fds=fds)
        _close_all(received)
        return result

    async def call_fds(
        self, method: str, params: object = None, *, fds: Sequence[int] = ()
    ) -> tuple[Any, list[int]]:
        """Call as :meth:`call` does, and also return the descriptors of the answer, which belong to
        the caller from then on."""
        self._next_id += 1
        number = self._next_id
        future: asyncio.Future[tuple[Any, list[int]]] = self._loop.create_future()
        line = orjson.dumps({"id": number, "method": method, "params": params, "fds": len(fds)})
        self._send(line, fds)
        self._calls[number] = future
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                _close_all(future.result()[1])
            elif not self._closed.done():
                self._send(orjson.dumps({"cancel": number}))
            raise
        finally:
            self._calls.pop(number, None)

    def emit(self, event: str, params: object = None) -> None:
        """Send an event; do nothing if the other end is gone."""
        if not self._closed.done():
            self._send(orjson.dumps({"event": event, "params": params}))

    def register(self, method: str, handler: CallHandler) -> None:
        """Offer a method to the other side; a second registration of the same name is a defect."""
        if method in self._handlers:
            raise ValueError(f"the method {method} is registered twice")
        self._handlers[method] = handler

    async def _answer(self, number: int, method: str, params: Any, fds: list[int]) -> None:
        try:
            handler = self._handlers.get(method)
            if handler is None:
                _close_all(fds)
                raise Refused(
                    f"there is no method {method}; the methods are "
                    f"{', '.join(sorted(self._handlers))}"
                )
            result = await handler(params, fds)
            reply = result if isinstance(result, DescriptorReply) else DescriptorReply(result)
            try:
                line = orjson.dumps({"id": number, "result": reply.result, "fds": len(reply.fds)})
                self._send(line, reply.fds)
            finally:
                _close_all(reply.fds)
        except (Refused, KernelError, ShapeError) as error:
            open_files.notice(error)
            self._answer_error(number, error)
        except ChannelClosed:
            _log.debug("%s was answered after the channel closed", method)
        except Exception as error:
            _log.exception("%s failed", method)
            self._answer_error(number, error)
        finally:
            self._running.pop(number, None)

    def _answer_error(self, number: int, error: Exception) -> None:
        words = str(error) if isinstance(error, (Refused, KernelError, ShapeError)) else repr(error)
        if not self._closed.done():
            self._send(
                orjson.dumps(
                    {"id": number, "error": {"kind": type(error).__name__, "message": words}}
                )
            )

    async def wait_closed(self) -> str:
        """Wait until either side has closed, and return the reason."""
        return await asyncio.shield(self._closed)

    @property
    def closed(self) -> bool:
        return self._closed.done()

    def end(self, reason: str) -> None:
        """Close the channel, and make the other side close with the same reason."""
        self.emit(_END, reason)
        self.close(reason)

    def close(self, reason: str = "closed here") -> None:
        """Close the socket: the other side reads end-of-file, pending calls fail, running
        handlers are cancelled.
        """
        if self._closed.done():
            return
        self._closed.set_result(reason)
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()
        _close_all(self._received_fds)
        self._received_fds.clear()
        for _, fds in self._unsent:
            _close_all(fds)
        self._unsent.clear()
        for future in self._calls.values():
            if not future.done():
                future.set_exception(ChannelClosed(f"{self.peer} is gone: {reason}"))
        for task in list(self._running.values()):
            task.cancel()

    def _send(self, line: bytes, fds: Sequence[int] = ()) -> None:
        if self._closed.done():
            raise ChannelClosed(f"{self.peer} is gone: {self._closed.result()}")
        if len(fds) > _MAX_FDS:
            raise ValueError(
                f"too many descriptors in one message: {len(fds)}; the kernel's limit is {_MAX_FDS}"
            )
        waiting = bool(self._unsent)
        self._unsent.append((memoryview(line + b"\n"), [os.dup(fd) for fd in fds]))
        if not waiting:
            self._writable()

    def _writable(self) -> None:
        while self._unsent:
            data, fds = self._unsent[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            try:
                sent = self._sock.sendmsg([data], rights, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                self._loop.add_writer(self._sock, self._writable)
                return
            except OSError as error:
                self.close(f"sending failed: {error.strerror}")
                return
            _close_all(fds)
            if sent < len(data):
                self._unsent[0] = (data[sent:], [])
            else:
                self._unsent.popleft()
        self._loop.remove_writer(self._sock)

    def _readable(self) -> None:
        try:
            data, ancillary, flags, _ = self._sock.recvmsg(
                _CHUNK, _FD_SPACE, socket.MSG_CMSG_CLOEXEC
            )
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(f"receiving failed: {error.strerror}")
            return
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                received = array.array("i")
                received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
                self._received_fds.extend(received)
        if flags & socket.MSG_CTRUNC:
            self.end(
                open_files.exhausted(errno.EMFILE)
            )  # descriptors were cut off: the queue can no longer be paired
            return
        if not data:
            self.close("end of file")
            return
        start = 0
        self._unread += data
        while (end := self._unread.find(b"\n", start)) >= 0:
            line = bytes(self._unread[start:end])
            start = end + 1
            self._received(line)
            if self._closed.done():
                return
        del self._unread[:start]

    def _received(self, line: bytes) -> None:
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            self.close(f"received a line that is not JSON: {line[:80]!r}")
            return
        fds = [self._received_fds.popleft() for _ in range(message.get("fds") or 0)]
        number = message.get("id", 0)
        if "method" in message:
            answer = self._answer(number, message["method"], message["params"], fds)
            self._running[number] = self._loop.create_task(answer)
        elif "cancel" in message:
            task = self._running.get(message["cancel"])
            if task is not None:
                task.cancel()
        elif message.get("event") == _END:
            self.close(message["params"])
        elif "event" in message:
            if self.on_event is not None:
                self.on_event(message["event"], message["params"])
        else:
            self._resolve(number, message, fds)

    def _resolve(self, number: int, message: dict[str, Any], fds: list[int]) -> None:
        future = self._calls.get(number)
        if future is None or future.done():
            _close_all(fds)
        elif "error" in message:
            error = message["error"]
            future.set_exception(CallFailed(error["kind"], error["message"]))
        else:
            future.set_result((message["result"], fds))


def _close_all(fds: Sequence[int] | deque[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
