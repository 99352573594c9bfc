# SPDX-License-Identifier: Apache-2.0
"""Attempts as sections 5 and 6 of docs/probe-protocol.md describe them, with sockets created in the
pod.

Details are names of .NET's SocketError and numbers of Winsock, as the Windows programs report them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import itertools
import math
import random
import re
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from hybridlab import assumed
from hybridlab.probe_programs import dns
from hybridlab.runtime.applet import Net
from hybridlab.runtime.applets.refusals import heard_late

BODY_LIMIT = 65536
"""The number of bytes of a body that a result contains."""
KEEP_LIMIT = 4 * BODY_LIMIT
"""The number of bytes of an HTTP answer that are stored, headers included; further bytes are only
counted."""
IP_MTU_DISCOVER = 10
IP_PMTUDISC_DO = 2
"""A constant of Linux that Python 3.11 does not define. It means: never fragment packets, and
refuse packets that are too large."""
PATIENCE = 10
"""An attempt that makes progress ends after this many times its give-up time."""
SECOND_LOOK = 0.03
"""An answer counts as missing only if it is also missing this many seconds after the first
check."""
TOGETHER = 0.01
"""Second checks are made at multiples of this many seconds, so that many results share a line."""

Spec = Mapping[str, Any]
Settings = Mapping[str, float | str | int]


WINSOCK = {
    errno.ECONNREFUSED: assumed.words("refused-words"),
    errno.ECONNRESET: assumed.words("reset-words"),
    errno.EPIPE: assumed.words("reset-words"),
    errno.ENOTCONN: ("RESET", "NotConnected/10057"),
    errno.ECONNABORTED: ("ABORTED", "ConnectionAborted/10053"),
    errno.ETIMEDOUT: ("TIMED_OUT", "TimedOut/10060"),
    errno.EHOSTUNREACH: ("UNREACHABLE", "HostUnreachable/10065"),
    errno.ENETUNREACH: ("UNREACHABLE", "NetworkUnreachable/10051"),
    errno.EACCES: ("PROHIBITED", "AccessDenied/10013"),
    errno.EPERM: ("PROHIBITED", "AccessDenied/10013"),
    errno.EMSGSIZE: ("PROHIBITED", "MessageSize/10040"),
}
REFUSED_DATAGRAM = assumed.words("refused-datagram-words")


class Ended(Exception):
    """Raised to end an attempt with a verdict."""

    def __init__(self, verdict: str, detail: str = "") -> None:
        super().__init__(verdict)
        self.verdict = verdict
        self.detail = detail


class Expired(Exception):
    """Nothing happened during the give-up time, nor until the second check."""


_FIRST = 49152
_COUNT = 16384
_PORTS = (_FIRST + number % _COUNT for number in itertools.count(random.randrange(_COUNT)))
"""The ports of datagram sockets, in turn: packets from a port that is reused too soon would belong
to a flow that firewalls still store."""


class Attempt:
    """An attempt of a batch; :meth:`run` returns its result object."""

    def __init__(self, net: Net, spec: Spec, settings: Settings, started: float) -> None:
        """Set up the attempt. ``spec`` is a result of :func:`fields.checked`; ``started`` is the
        start of the agent on ``time.monotonic``."""
        self.net = net
        self.spec = spec
        self.settings = settings
        self._started = started
        self.give_up = float(spec["give_up_ms"]) / 1000
        self.began: float | None = None
        self.turn = time.monotonic()
        self.out: dict[str, Any] = {"id": spec["id"]}

    async def run(self) -> dict[str, Any]:
        """Make the attempt and return its result. Neither an error of the network nor a
        cancellation raises: both are results."""
        try:
            await KINDS[self.spec["kind"]](self)
            raise Ended("BROKEN", "the attempt ended without a verdict")
        except Ended as ended:
            return self._ended(ended.verdict, ended.detail)
        except asyncio.CancelledError:
            return self._ended("CANCELLED", "the suite asked to stop")
        except OSError as error:
            is_of_datagram = error.errno == errno.ECONNREFUSED and self.spec["kind"] == "udp"
            return self._ended(*(REFUSED_DATAGRAM if is_of_datagram else winsock(error)))

    def never_begun(self) -> dict[str, Any]:
        """Return the result of an attempt that was cancelled before its turn."""
        return self._ended("CANCELLED", "the suite asked to stop before it began")

    def _ended(self, verdict: str, detail: str) -> dict[str, Any]:
        began = None if self.began is None else round((self.began - self._started) * 1000, 3)
        self.out.update(verdict=verdict, detail=detail, began_ms=began, ms=self.elapsed())
        return self.out

    def elapsed(self) -> float:
        """Return the milliseconds since the attempt's first packet; if it sent no packet, since its
        turn began."""
        return round(
            (time.monotonic() - (self.turn if self.began is None else self.began)) * 1000, 3
        )

    @property
    def last(self) -> float:
        """Return the latest time at which the attempt must have ended, on ``time.monotonic``."""
        return (self.turn if self.began is None else self.began) + PATIENCE * self.give_up

    def patience(self) -> TwoLooks:
        """Return the time-out of a step.  It raises Expired when the step makes no progress."""
        return TwoLooks(max(0.0, min(self.give_up, self.last - time.monotonic())))

    async def open(
        self, kind: socket.SocketKind, host: str, port: int, *, whole: bool = False, own: int = 0
    ) -> socket.socket:
        """Return a connected socket (UDP: with its peer fixed, and from its ``own`` port).  Raise
        Expired, OSError."""
        sock = self.net.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
        try:
            if whole:
                # on Windows the program sets IP_DONTFRAGMENT
                sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
            if own:
                sock.bind(("", own))
            elif kind is socket.SOCK_DGRAM:
                self._bind_to_fresh_port(sock)
            if self.began is None:
                self.began = time.monotonic()
            async with self.patience():
                await heard_late(
                    asyncio.get_running_loop().sock_connect(sock, (host, port)), self.settings
                )
            self.out["connect_ms"] = self.elapsed()
            self.out.update(local=place(sock.getsockname()), remote=place(sock.getpeername()))
        except BaseException:
            sock.close()
            raise
        return sock

    def _bind_to_fresh_port(self, sock: socket.socket) -> None:
        """Bind to the next port in turn, from Windows' dynamic range."""
        for _ in range(64):
            try:
                sock.bind(("", next(_PORTS)))
                return
            except OSError:
                continue

    async def reach(self, kind: socket.SocketKind) -> socket.socket:
        """Return a socket connected to the target: its given address, or the first A record of its
        name."""
        host = str(self.spec["host"])
        if not dns.is_address(host):
            host = (await self.resolve(host, "A", tcp=False, server=None))[0]
        datagrams = kind is socket.SOCK_DGRAM
        whole = datagrams and bool(self.spec["whole"])
        own = int(self.spec["from_port"]) if datagrams else 0
        if whole and ":" in host:
            raise Ended("BROKEN", "whole is for IPv4 alone")
        try:
            return await self.open(kind, host, int(self.spec["port"]), whole=whole, own=own)
        except Expired:
            raise Ended("TIMED_OUT", "no answer to the first packet") from None

    async def push(self, sock: socket.socket, data: bytes) -> None:
        """Send all of the data. Raise Expired, OSError."""
        async with self.patience():
            await asyncio.get_running_loop().sock_sendall(sock, data)
            if not data:
                sock.send(data)  # send an empty datagram, too

    async def pull(self, sock: socket.socket) -> bytes:
        """Return the next bytes.  Raise Expired, OSError."""
        async with self.patience():
            return await asyncio.get_running_loop().sock_recv(sock, 65536)

    async def resolve(
        self, query: str, record: str, *, tcp: bool, server: tuple[str, int] | None
    ) -> list[str]:
        """Return the answers to a query. End the attempt if there are no answers."""
        servers = [server] if server else [(nameserver, 53) for nameserver in self.net.nameservers]
        names = dns.candidates(query, record, None if server else self.net.searches)
        if not servers:
            raise Ended("BROKEN", "no adapter has a DNS server")
        if not names:
            raise Ended("BROKEN", f"no suffix known for '{query}'")
        last_problem = ""
        rcode = "NXDOMAIN"
        for name in names:
            problem = ""
            for where in servers:
                answer, problem = await self.ask(where, name, record, tcp=tcp)
                if answer is None:
                    problem = f"{problem} from {where[0]}:{where[1]} for {name}"
                    continue
                if answer.code == 0 and answer.records:
                    self.out["name"] = name
                    return list(answer.records)
                # NOERROR: the name exists, but only with other records
                rcode = rcode if answer.code else "NOERROR"
                break  # this server's answer is final
            last_problem = problem or last_problem
        if last_problem:
            raise Ended("DNS_FAILED", last_problem)
        self.out["rcode"] = rcode
        raise Ended("NO_SUCH_NAME", f"no {record} record for {', '.join(names)}: {rcode}")

    async def ask(
        self, where: tuple[str, int], name: str, record: str, *, tcp: bool
    ) -> tuple[dns.Answer | None, str]:
        """Return a server's answer about a name, or None and the problem.  Raise Ended for an
        invalid name."""
        try:
            asked = dns.question(name, record)
        except dns.NoName as problem:
            raise Ended("BROKEN", str(problem)) from None
        number = random.getrandbits(16)
        try:
            answer = await self._exchange(where, number, asked, record, tcp=tcp)
            if answer.truncated and not tcp:
                return await self.ask(where, name, record, tcp=True)
        except Expired:
            return None, "no answer"
        except dns.Garbled:
            return None, "garbled answer"
        except OSError as error:
            return None, winsock(error)[1]
        if answer.code not in (0, 3):
            return None, dns.CODES.get(answer.code, f"code {answer.code}")
        return answer, ""

    async def _exchange(
        self, where: tuple[str, int], number: int, asked: bytes, record: str, *, tcp: bool
    ) -> dns.Answer:
        """Send a query and return its answer.  Raise Expired, OSError, dns.Garbled."""
        packet = dns.packet(number, asked)
        data = b""
        with contextlib.closing(
            await self.open(socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM, *where)
        ) as sock:
            await self.push(sock, len(packet).to_bytes(2, "big") + packet if tcp else packet)
            while True:
                chunk = await self.pull(sock)
                if tcp:
                    data += chunk
                    if not chunk:
                        raise ConnectionResetError(
                            errno.ECONNRESET, "closed before its answer was whole"
                        )
                    if len(data) < 2 or len(data) < 2 + int.from_bytes(data[:2], "big"):
                        continue
                    chunk = data[2 : 2 + int.from_bytes(data[:2], "big")]
                answer = dns.read(chunk, number, asked, record)
                if answer is not None:
                    return answer
                if tcp:
                    raise dns.Garbled("an answer to another question")


class TwoLooks:
    """A time-out for a ``with`` block: it raises Expired if the block has not ended after the given
    seconds and a second check.

    The second check is needed because data that arrived while this program had no processor is read
    only after the first check.
    """

    __slots__ = ("_expired", "_handle", "_task", "_within")

    def __init__(self, within: float) -> None:
        self._within = within
        self._expired = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._handle = asyncio.get_running_loop().call_later(self._within, self._first)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        self._handle.cancel()
        if self._expired and self._task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise Expired from None

    def _first(self) -> None:
        loop = asyncio.get_running_loop()
        moment = math.ceil((loop.time() + SECOND_LOOK) / TOGETHER) * TOGETHER
        self._handle = loop.call_at(moment, self._second)

    def _second(self) -> None:
        self._expired = True
        self._task.cancel()


def place(address: tuple[Any, ...]) -> str:
    """Return ``address:port``, with IPv6 in brackets."""
    return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"


def payload(size: int) -> bytes:
    """Return a payload: ``a`` to ``z``, repeated."""
    return (b"abcdefghijklmnopqrstuvwxyz" * (size // 26 + 1))[:size]


def winsock(error: OSError) -> tuple[str, str]:
    """Return verdict and detail of a failed socket call."""
    return WINSOCK.get(error.errno or 0, ("BROKEN", str(error)))


async def _tcp(attempt: Attempt) -> None:
    (await attempt.reach(socket.SOCK_STREAM)).close()
    raise Ended("CONNECTED")


async def _http(attempt: Attempt) -> None:
    spec = attempt.spec
    body = payload(attempt.spec["payload"])
    host = f"[{spec['host']}]" if ":" in spec["host"] else spec["host"]
    lines = [f"{'POST' if body else 'GET'} {spec['path']} HTTP/1.0", f"Host: {host}"]
    lines += ["User-Agent: probe", "Connection: close"]
    if body:
        lines += ["Content-Type: application/octet-stream", f"Content-Length: {len(body)}"]
    kept = bytearray()
    size = 0
    failure = None
    with contextlib.closing(await attempt.reach(socket.SOCK_STREAM)) as sock:
        try:
            await attempt.push(sock, "\r\n".join([*lines, "", ""]).encode() + body)
            while chunk := await attempt.pull(sock):
                size += len(chunk)
                kept += chunk[: KEEP_LIMIT - len(kept)]
        except Expired:
            why = "then silence" if time.monotonic() < attempt.last else "but no end"
            failure = Ended("NO_ANSWER", f"connected, {why} after {size} bytes")
        except OSError as error:
            verdict, detail = winsock(error)
            failure = Ended("ABORTED" if verdict == "TIMED_OUT" else verdict, detail)
    missing = keep_http(attempt.out, bytes(kept), size) if size else None
    if failure is not None and (failure.verdict != "RESET" or missing != ""):
        raise failure
    if not size:
        raise Ended("CLOSED", "the peer closed without answering")
    if missing:
        raise Ended("CLOSED", f"answer cut short: {missing}")
    raise Ended("CONNECTED", attempt.out.get("status_line", ""))


def keep_http(out: dict[str, Any], data: bytes, size: int) -> str | None:
    """Store the status, identity headers and body of an answer in the result; ``size``: all bytes
    that arrived.

    Return a text about the missing part; empty if the answer has its stated length, None if it
    states no length.
    """
    end = re.search(rb"\r?\n\r?\n", data)
    head = data[: end.end() if end else len(data)].decode("latin-1")
    status = re.match(r"HTTP/[^ \r\n]* ([0-9]{1,9})[ \r\n]", head)
    if status is None:
        _keep_body(out, data, size)
        return None
    first, *rest = re.split(r"\r?\n", head)
    fields = {
        key.strip().lower(): value.strip()
        for key, _, value in (line.partition(":") for line in rest)
    }
    out["status"] = int(status[1])
    out["status_line"] = first
    out["headers"] = {key: value for key, value in fields.items() if key.startswith("x-probe-")}
    size -= len(head)
    _keep_body(out, data[len(head) :], size)
    promised = fields.get("content-length", "")
    if end is None:
        return "its head has no end"
    if not re.fullmatch(r"[0-9]+", promised, re.ASCII):
        return None
    return f"{size} of {promised} bytes" if len(promised) > 15 or size < int(promised) else ""


def _keep_body(out: dict[str, Any], body: bytes, size: int) -> None:
    out["body_bytes"] = size
    out["body_b64"] = base64.b64encode(body[:BODY_LIMIT]).decode()


async def _udp(attempt: Attempt) -> None:
    spec = attempt.spec
    body = payload(spec["payload"]) if spec["payload"] else str(spec["send"]).encode()
    with contextlib.closing(await attempt.reach(socket.SOCK_DGRAM)) as sock:
        try:
            await attempt.push(sock, body)
            answer = await attempt.pull(sock)
        except Expired:
            raise Ended("TIMED_OUT", "no datagram came back") from None
    _keep_body(attempt.out, answer, len(answer))
    raise Ended("CONNECTED")


async def _dns(attempt: Attempt) -> None:
    spec = attempt.spec
    server = (str(spec["host"]), int(spec["port"])) if spec["host"] else None
    attempt.out["answers"] = await attempt.resolve(
        spec["query"], spec["record"], tcp=spec["over"] == "tcp", server=server
    )
    raise Ended("RESOLVED")


KINDS: Mapping[str, Callable[[Attempt], Coroutine[Any, Any, None]]] = {
    "tcp": _tcp,
    "http": _http,
    "udp": _udp,
    "dns": _dns,
}
