"""Attempts as section 5 and 6 of docs/probe-protocol.md describe them, with sockets born in the pod.

Words of detail are those of .NET's SocketError and Winsock's numbers, as the Windows programs report them.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import ipaddress
import random
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from dnslib import QTYPE, RCODE, DNSError, DNSRecord

from hybridlab.runtime.applet import Net
from hybridlab.runtime.applets.refusals import heard_late

T = TypeVar("T")

BODY_LIMIT = 65536
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
"""Linux' numbers, which Python 3.11 has no names for: never fragment, refuse what does not fit."""
PATIENCE = 10
"""An attempt that makes progress still ends after so many times its give-up time."""

Spec = Mapping[str, Any]
Settings = Mapping[str, float | str | int]

WINSOCK = {
    errno.ECONNREFUSED: ("REFUSED", "ConnectionRefused/10061"),
    errno.ECONNRESET: ("RESET", "ConnectionReset/10054"),
    errno.EPIPE: ("RESET", "ConnectionReset/10054"),
    errno.ECONNABORTED: ("ABORTED", "ConnectionAborted/10053"),
    errno.ETIMEDOUT: ("TIMED_OUT", "TimedOut/10060"),
    errno.EHOSTUNREACH: ("UNREACHABLE", "HostUnreachable/10065"),
    errno.ENETUNREACH: ("UNREACHABLE", "NetworkUnreachable/10051"),
    errno.EACCES: ("PROHIBITED", "AccessDenied/10013"),
    errno.EPERM: ("PROHIBITED", "AccessDenied/10013"),
    errno.EMSGSIZE: ("PROHIBITED", "MessageSize/10040"),
}


class Ended(Exception):
    """An attempt's verdict."""

    def __init__(self, verdict: str, detail: str = "") -> None:
        super().__init__(verdict)
        self.verdict, self.detail = verdict, detail


class Attempt:
    """One attempt of a batch; :meth:`run` returns its result object."""

    def __init__(self, net: Net, spec: Spec, settings: Settings) -> None:
        self.net, self.spec, self.settings = net, spec, settings
        self.give_up = float(spec["give_up_ms"]) / 1000
        self.begin = time.monotonic()
        self.out: dict[str, Any] = {"id": spec["id"]}

    async def run(self) -> dict[str, Any]:
        """Carry it out; never raises for what the network does."""
        try:
            action = KINDS.get(str(self.spec["kind"]))
            if action is None:
                raise Ended("BROKEN", f"kind {self.spec['kind']!r} is not known")
            async with asyncio.timeout(PATIENCE * self.give_up):
                await action(self)
            raise Ended("BROKEN", "the attempt ended without a verdict")
        except Ended as ended:
            verdict, detail = ended.verdict, ended.detail
        except TimeoutError:
            verdict, detail = "NO_ANSWER", "progress, but no end"
        except OSError as error:
            verdict, detail = winsock(error)
        self.out.update(verdict=verdict, detail=detail, ms=self.elapsed())
        return self.out

    def elapsed(self) -> float:
        """Milliseconds since the attempt began."""
        return round((time.monotonic() - self.begin) * 1000, 3)

    async def progress(self, action: Coroutine[Any, Any, T], verdict: str, detail: str) -> T:
        """What ``action`` returns; without it within the give-up time the attempt ends with ``verdict``."""
        try:
            async with asyncio.timeout(self.give_up):
                return await action
        except TimeoutError as error:
            if error.errno == errno.ETIMEDOUT and verdict != "TIMED_OUT":  # its own system gave up, not the attempt
                raise Ended("ABORTED", "TimedOut/10060") from None
            raise Ended(verdict, detail) from None

    async def connect(self, kind: socket.SocketKind, host: str, port: int) -> socket.socket:
        """A connected socket (UDP: with its peer fixed)."""
        sock = self.net.socket(socket.AF_INET, kind)
        try:
            try:
                connecting = asyncio.get_running_loop().sock_connect(sock, (host, port))
                await self.progress(heard_late(connecting, self.settings), "TIMED_OUT", "no answer to the first packet")
            except Ended:
                if not connected(sock):  # it may have come while this program waited for its turn
                    raise
        except BaseException:
            sock.close()
            raise
        self.out["connect_ms"] = self.elapsed()
        self.out["local"] = "{}:{}".format(*sock.getsockname()[:2])
        self.out["remote"] = f"{host}:{port}"
        return sock

    async def address(self) -> str:
        """The target's address: as given, or the first A record of its name."""
        host = str(self.spec["host"])
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return (await self.resolve(host, "A", tcp=False, server=None))[0]
        return host

    async def resolve(self, query: str, record: str, *, tcp: bool, server: tuple[str, int] | None) -> list[str]:
        """Answers of a query; ends the attempt when there are none."""
        servers = [server] if server else [(one, 53) for one in self.net.nameservers]
        names = [query.rstrip(".")] if server else candidates(query, record, list(self.net.searches))
        trouble = "" if servers else "the adapters have no DNS server"
        for name in names:
            for where in servers:
                try:
                    reply = await self.ask(where, name, record, tcp=tcp)
                except Ended as ended:
                    trouble = f"{ended.detail} from {where[0]}:{where[1]} for {name}"
                    continue
                code = str(RCODE[reply.header.rcode])
                answers = [str(rr.rdata) for rr in reply.rr if rr.rtype == getattr(QTYPE, record)]
                if code == "NOERROR" and answers:
                    self.out["name"] = name
                    return answers
                if code in {"NOERROR", "NXDOMAIN"}:
                    break  # this server knows that there is nothing
                trouble = f"{code} from {where[0]}:{where[1]} for {name}"
        if trouble:
            raise Ended("DNS_FAILED", trouble)
        raise Ended("NO_SUCH_NAME", f"no {record} record for {', '.join(names) or query}")

    async def ask(self, where: tuple[str, int], name: str, record: str, *, tcp: bool) -> DNSRecord:
        """One query to one server.  Ended with DNS_FAILED when there is no usable answer."""
        question = DNSRecord.question(name, record)
        question.header.id = random.getrandbits(16)
        packet = bytes(question.pack())
        try:
            answer = await self.progress(self._exchange(where, packet, tcp=tcp), "DNS_FAILED", "no answer")
            reply = DNSRecord.parse(answer)
        except OSError as error:
            raise Ended("DNS_FAILED", winsock(error)[1]) from None
        except (DNSError, IndexError):
            raise Ended("DNS_FAILED", "garbled answer") from None
        if reply.header.tc and not tcp:
            return await self.ask(where, name, record, tcp=True)
        return reply

    async def _exchange(self, where: tuple[str, int], packet: bytes, *, tcp: bool) -> bytes:
        loop = asyncio.get_running_loop()
        with self.net.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as sock:
            await heard_late(loop.sock_connect(sock, where), self.settings)
            await loop.sock_sendall(sock, len(packet).to_bytes(2, "big") + packet if tcp else packet)
            data = b""
            while True:
                chunk = await loop.sock_recv(sock, 65536)
                if not tcp and chunk[:2] == packet[:2]:
                    return chunk
                if tcp:
                    data += chunk
                    if len(data) >= 2 and len(data) >= 2 + int.from_bytes(data[:2], "big"):
                        return data[2:]
                    if not chunk:
                        raise ConnectionResetError(errno.ECONNRESET, "closed before its answer was whole")


def connected(sock: socket.socket) -> bool:
    """Whether a connection is there, now."""
    try:
        sock.getpeername()
    except OSError:
        return False
    return True


def candidates(query: str, record: str, suffixes: list[str]) -> list[str]:
    """The names that Windows asks for: one with a dot as it is, one without only with the suffixes."""
    if record == "PTR":
        try:
            return [ipaddress.ip_address(query).reverse_pointer]
        except ValueError:
            return [query.rstrip(".")]
    if "." in query:
        return [query.rstrip(".")]
    return [f"{query}.{suffix.rstrip('.')}" for suffix in suffixes]


def payload(size: int) -> bytes:
    """``a`` to ``z``, again and again."""
    return (b"abcdefghijklmnopqrstuvwxyz" * (size // 26 + 1))[:size]


def winsock(error: OSError) -> tuple[str, str]:
    """Verdict and detail of a failed socket call."""
    return WINSOCK.get(error.errno or 0, ("BROKEN", str(error)))


async def _tcp(attempt: Attempt) -> None:
    host = await attempt.address()
    (await attempt.connect(socket.SOCK_STREAM, host, int(attempt.spec["port"]))).close()
    raise Ended("CONNECTED")


async def _http(attempt: Attempt) -> None:
    spec = attempt.spec
    host = await attempt.address()
    body = payload(int(spec.get("payload") or 0))
    lines = [f"{'POST' if body else 'GET'} {spec.get('path') or '/'} HTTP/1.0", f"Host: {spec['host']}"]
    lines += ["User-Agent: probe", "Connection: close"]
    if body:
        lines += ["Content-Type: application/octet-stream", f"Content-Length: {len(body)}"]
    sock = await attempt.connect(socket.SOCK_STREAM, host, int(spec["port"]))
    loop, data = asyncio.get_running_loop(), b""
    silence = "connected, then silence after {} bytes"
    with sock:
        try:
            request = "\r\n".join([*lines, "", ""]).encode() + body
            await attempt.progress(loop.sock_sendall(sock, request), "NO_ANSWER", silence.format(0))
            while chunk := await attempt.progress(loop.sock_recv(sock, 65536), "NO_ANSWER", silence.format(len(data))):
                data += chunk
        finally:
            expected = _keep_http(attempt, data)
    if not data:
        raise Ended("CLOSED", "the peer closed without answering")
    if expected is not None and attempt.out["body_bytes"] < expected:
        raise Ended("CLOSED", f"answer cut short: {attempt.out['body_bytes']} of {expected} bytes")
    raise Ended("CONNECTED", attempt.out.get("status_line", ""))


def _keep_http(attempt: Attempt, data: bytes) -> int | None:
    """Status, identity headers and body into the result; the Content-Length, if any."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    fields: dict[str, str] = {}
    if words[0].startswith("HTTP/") and len(words) > 1 and words[1].isdigit():
        attempt.out["status"], attempt.out["status_line"] = int(words[1]), first
        for line in rest:
            key, _, value = line.partition(":")
            fields[key.strip().lower()] = value.strip()
        attempt.out["headers"] = {key: value for key, value in fields.items() if key.startswith("x-probe-")}
    else:
        body = data
    _keep_body(attempt, body)
    length = fields.get("content-length", "")
    return int(length) if length.isdigit() else None


def _keep_body(attempt: Attempt, body: bytes) -> None:
    attempt.out["body_bytes"] = len(body)
    attempt.out["body_b64"] = base64.b64encode(body[:BODY_LIMIT]).decode()


async def _udp(attempt: Attempt) -> None:
    spec = attempt.spec
    host = await attempt.address()
    body = payload(int(spec.get("payload") or 0)) or str(spec.get("send") or "probe").encode()
    loop = asyncio.get_running_loop()
    with await attempt.connect(socket.SOCK_DGRAM, host, int(spec["port"])) as sock:
        if spec.get("whole"):
            sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)  # the Winsock option is DontFragment
        await attempt.progress(loop.sock_sendall(sock, body), "TIMED_OUT", "no datagram came back")
        answer = await attempt.progress(loop.sock_recv(sock, 65536), "TIMED_OUT", "no datagram came back")
    _keep_body(attempt, answer)
    raise Ended("CONNECTED")


async def _dns(attempt: Attempt) -> None:
    spec = attempt.spec
    server = (str(spec["host"]), int(spec.get("port") or 53)) if spec.get("host") else None
    record = str(spec.get("record") or "A")
    if record not in RECORDS:
        raise Ended("BROKEN", f"record type {record!r} is not known")
    query = str(spec["query"])
    attempt.out["answers"] = await attempt.resolve(query, record, tcp=spec.get("over") == "tcp", server=server)
    raise Ended("RESOLVED")


RECORDS = frozenset({"A", "AAAA", "SRV", "PTR", "CNAME", "TXT", "NS"})
KINDS: dict[str, Callable[[Attempt], Awaitable[None]]] = {"tcp": _tcp, "http": _http, "udp": _udp, "dns": _dns}
