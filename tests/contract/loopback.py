"""Servers on loopback for the golden conversations: they refuse, drop, reset, close, stay silent, echo, resolve."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dnslib import QTYPE, RCODE, RR, DNSRecord

PROGRAMS = Path(__file__).parents[2] / "manifests" / "probes"
ECHO = PROGRAMS / "echo_server.py"
REVERSE = [f"{name}." for name in ("010.0.0.5", "999.0.0.5", "10.0.5", "[::1]", "fe80::1%1")]
ZONE = {
    "web.test.": {"A": ["10.0.0.5"]},
    "_http._tcp.web.test.": {"SRV": ["0 100 80 web.test."]},
    "5.0.0.10.in-addr.arpa.": {"PTR": ["web.test."]},
    "1." + "0." * 29 + "d.f.ip6.arpa.": {"PTR": ["six.test."]},
    **{name: {"PTR": ["name.test."]} for name in REVERSE},
    "big.test.": {"A": [f"10.9.0.{number}" for number in range(40)]},
    "zone.test.": {"NS": ["ns1.test.", "ns2.test."]},
}


def local(kind: int = socket.SOCK_STREAM, port: int = 0, host: str = "127.0.0.1") -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
    sock.bind((host, port))
    return sock


def both(host: str = "127.0.0.1") -> tuple[socket.socket, socket.socket]:
    """A TCP and a UDP socket on one free port."""
    while True:
        stream = local(host=host)
        try:
            return stream, local(socket.SOCK_DGRAM, stream.getsockname()[1], host)
        except OSError:
            stream.close()


def unused() -> int:
    """A port that was just given back: nobody listens there."""
    stream, datagrams = both()
    port: int = stream.getsockname()[1]
    stream.close()
    datagrams.close()
    return port


def serve(listener: socket.socket, handle: Callable[[socket.socket], None], *, apart: bool = False) -> None:
    """Give each connection to ``handle``, ``apart``: in a thread of its own."""
    listener.listen(64)

    def one(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            handle(connection)

    def loop() -> None:
        with contextlib.suppress(OSError):  # closed at the end of the test
            while True:
                connection = listener.accept()[0]
                if apart:
                    threading.Thread(target=one, args=(connection,), daemon=True).start()
                else:
                    one(connection)

    threading.Thread(target=loop, daemon=True).start()


def datagrams(sock: socket.socket, reply: Callable[[bytes], list[bytes]]) -> None:
    def loop() -> None:
        with contextlib.suppress(OSError):
            while True:
                data, client = sock.recvfrom(65535)
                for each in reply(data):
                    sock.sendto(each, client)

    threading.Thread(target=loop, daemon=True).start()


def after_request(end: Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    def handle(connection: socket.socket) -> None:
        connection.recv(65536)
        end(connection)

    return handle


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# --- HTTP: the path says what is answered


def read_request(connection: socket.socket) -> tuple[str, str, bytes]:
    """(request line, its path, body)"""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return "", "", b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("utf-8").split("\r\n")
    size = next((int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")), 0)
    while len(body) < size:
        body += connection.recv(65536)
    return lines[0], lines[0].split(" ")[1], body


def http(connection: socket.socket) -> None:
    line, path, body = read_request(connection)
    ok, pod = b"HTTP/1.1 200 OK\r\n", b"X-Probe-Pod: ns/web\r\n"
    words = path.strip("/").split("-")
    if words[0] == "length":
        connection.sendall(ok + b"Content-Length: %s\r\n\r\nhello" % words[1].encode("latin-1"))
    elif words[0] == "head":
        late = b"X-Pad: " + b"p" * 70000 + b"\r\nX-Probe-Pod: late\r\n\r\nhello"
        connection.sendall(ok + (late if words[1] == "70000" else b"X-Probe-Pod: n"))
    elif words[0] == "body":
        connection.sendall(ok + b"Content-Length: %d\r\n\r\n" % int(words[1]) + b"b" * int(words[1]))
    elif words[0] == "slow":
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello":
            connection.sendall(bytes([byte]))
            time.sleep(0.02)
    elif words[0] == "endless":
        connection.sendall(ok + b"\r\n")
        while True:  # until the agent closes
            connection.sendall(b"e" * 100)
            time.sleep(0.03)
    elif words[0] in ("", "request"):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + line.encode())
    elif words[0] == "post":
        connection.sendall(ok + b"\r\n" + b"%s %d " % (line.encode(), len(body)) + body)
    else:
        connection.sendall({
            "plain": ok + pod + b"\r\nhello",
            "status": b"HTTP/1.1 500 Oh no\r\n\r\n",
            "banner": b"SSH-2.0-x\r\n",
            "small": b"http/1.1 200 OK\r\n\r\nx",
            "version": b"HTTP/2 200 OK\r\n\r\nx",
            "headers": ok + pod + b"X-PROBE-NODE:w1\r\nServer: x\r\n\r\nx",
        }.get(words[0], b""))  # fmt: skip
    if words[-1] == "reset":
        time.sleep(0.1)  # what was sent has arrived
        reset(connection)
    elif words[-1] == "open":
        connection.recv(1)  # until the agent closes
    connection.close()


# --- DNS


def record(kind: int, data: bytes) -> bytes:
    """A record of the question's own name."""
    return b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 30, len(data)) + data


def labels(name: str) -> bytes:
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".") if part) + b"\0"


def made(query: bytes, *records: bytes, count: int | None = None, code: int = 0) -> bytes:
    """An answer put together by hand."""
    number = len(records) if count is None else count
    return query[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, number, 0, 0) + query[12:] + b"".join(records)


def odd(query: bytes) -> dict[str, list[bytes]]:
    """Datagrams for the names that are answered in an odd way."""
    good = made(query, record(1, b"\x0a\1\2\3"))
    six = [socket.inet_pton(socket.AF_INET6, item) for item in ("2001:db8:0:0:1:0:0:1", "::ffff:10.0.0.1")]
    alias = record(5, labels("web.test.")) + labels("web.test.") + struct.pack(">HHIH", 1, 1, 30, 4) + b"\x0a\0\0\5"
    cut = {16: record(16, b"\x20hello"), 33: record(33, b"\0\1\0\1\0"), 28: record(28, b"\1" * 15)}
    kind = struct.unpack(">H", query[-4:-2])[0]
    return {
        "five": [made(query, record(1, b"\1\2\3\4\5"))],
        "none": [made(query, record(1, b""))],
        "cut": [made(query, cut.get(kind, b""))],
        "bare": [made(query, record(16, b""))],
        "fewer": [made(query, record(1, b"\x0a\1\2\3"), count=3)],
        "loop": [made(query, record(5, b"\xc0" + bytes([len(query) + 12])))],
        "huge": [made(query, *[record(1, bytes([10, 2, n // 250, n % 250])) for n in range(300)])],
        "wrong": [bytes([query[0] ^ 1]) + made(query, record(1, b"\6\6\6\6"))[1:], good],
        "other": [made(query.replace(b"\5other", b"\5otter"), record(1, b"\6\6\6\6")), good],
        "blank": [b"", good],
        "mirror": [query, good],
        "garbage": [b"\xff" * 30, b"\0" * 5],
        "capitals": [made(query[:12] + query[12:].upper(), record(1, b"\x0a\1\2\3"))],
        "refused": [made(query, code=5)],
        "six": [made(query, *[record(28, item) for item in six])],
        "text": [made(query, record(16, b"\5hello\5world"), record(16, b"\0"))],
        "alias": [made(query, alias, count=2)],
        "closes": [good],
    }


def answer(data: bytes, *, tcp: bool) -> list[bytes]:
    request = DNSRecord.parse(data)
    name, kind = str(request.q.qname), QTYPE[request.q.qtype]
    if name == "mute.test.":
        return []
    if name.endswith(".test.") and name.partition(".")[0] in odd(data):
        return odd(data)[name.partition(".")[0]]
    reply = request.reply()
    if name == "broken.test.":
        reply.header.rcode = RCODE.SERVFAIL
    elif name not in ZONE:
        reply.header.rcode = RCODE.NXDOMAIN
    elif name == "big.test." and not tcp:
        reply.header.tc = 1
    else:
        for value in ZONE[name].get(kind, []):
            reply.add_answer(*RR.fromZone(f"{name} 30 IN {kind} {value}"))
    return [b"\0" * 12, bytes(reply.pack())]  # the first is not an answer to this question: to be ignored


def resolve(stream: socket.socket, sock: socket.socket) -> None:
    def one(connection: socket.socket) -> None:
        data = connection.recv(65536)
        for reply in answer(data[2:], tcp=True)[-1:]:
            whole = struct.pack(">H", len(reply)) + reply
            connection.sendall(whole[:7])
            if b"\6closes" not in data:
                connection.sendall(whole[7:])
        connection.close()

    serve(stream, one)
    datagrams(sock, lambda data: answer(data, tcp=False))


@contextlib.contextmanager
def servers() -> Iterator[dict[str, int]]:
    """Ports by the names that the golden conversations use."""
    with contextlib.ExitStack() as stack:
        ports: dict[str, int] = {}

        def keep(name: str, *sockets: socket.socket) -> tuple[socket.socket, ...]:
            for item in sockets:
                stack.callback(item.close)
            ports[name] = sockets[0].getsockname()[1]
            return sockets

        ports["$REFUSING"] = unused()
        full = keep("$DROPPING", local())[0]
        full.listen(0)
        for _ in range(2):  # a full accept queue: the kernel drops further SYNs
            waiting = socket.socket()
            waiting.setblocking(False)
            stack.callback(waiting.close)
            waiting.connect_ex(full.getsockname())
        serve(keep("$RESETTING", local())[0], after_request(reset))
        serve(keep("$CLOSING", local())[0], after_request(socket.socket.close))
        silent: list[socket.socket] = []
        serve(keep("$SILENT", *both())[0], silent.append)
        serve(keep("$HTTP", local())[0], http, apart=True)
        resolve(*keep("$DNS", *both()))
        datagrams(keep("$EMPTY", local(socket.SOCK_DGRAM))[0], lambda data: [b""])
        datagrams(keep("$LONG", local(socket.SOCK_DGRAM))[0], lambda data: [b"u" * 60000])
        datagrams(keep("$COUNT", local(socket.SOCK_DGRAM))[0], lambda data: [b"%d" % len(data)])
        datagrams(keep("$SAME", local(socket.SOCK_DGRAM))[0], lambda data: [data])
        with contextlib.suppress(OSError):  # a machine without IPv6
            stream, sock = keep("$SIX", *both("::1"))
            serve(stream, silent.append)
            datagrams(sock, lambda data: [data])
            resolve(*keep("$DNS6", *both("::1")))
        ports["$ECHO"] = unused()
        program = [sys.executable, "-I", "-S", "-u", str(ECHO), "--ports", str(ports["$ECHO"])]
        environment = {"POD_NAMESPACE": "ns", "POD_NAME": "echo", "NODE_NAME": "w1"}
        process = subprocess.Popen(program, stdout=subprocess.PIPE, env=environment)
        stack.callback(process.wait, 5)
        stack.callback(process.kill)
        assert process.stdout is not None
        stack.callback(process.stdout.close)
        assert b'"listening"' in process.stdout.readline()
        yield ports
