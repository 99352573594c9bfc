"""Servers on 127.0.0.1 for the golden conversations: they refuse, drop, reset, close, stay silent, echo, resolve."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from dnslib import QTYPE, RCODE, RR, DNSRecord

PROGRAMS = Path(__file__).parents[2] / "manifests" / "probes"
ZONE = {
    "web.test.": {"A": ["10.0.0.5"]},
    "_http._tcp.web.test.": {"SRV": ["0 100 80 web.test."]},
    "5.0.0.10.in-addr.arpa.": {"PTR": ["web.test."]},
    "big.test.": {"A": [f"10.9.0.{number}" for number in range(40)]},
}


def local(kind: int = socket.SOCK_STREAM, port: int = 0) -> socket.socket:
    sock = socket.socket(socket.AF_INET, kind)
    sock.bind(("127.0.0.1", port))
    return sock


def both() -> tuple[socket.socket, socket.socket]:
    """A TCP and a UDP socket on one free port."""
    while True:
        stream = local()
        try:
            return stream, local(socket.SOCK_DGRAM, stream.getsockname()[1])
        except OSError:
            stream.close()


def unused() -> int:
    """A port that was just given back: nobody listens there."""
    stream, datagrams = both()
    port: int = stream.getsockname()[1]
    stream.close()
    datagrams.close()
    return port


def serve(listener: socket.socket, handle: Callable[[socket.socket], None]) -> None:
    listener.listen(64)

    def loop() -> None:
        with contextlib.suppress(OSError):  # closed at the end of the test
            while True:
                handle(listener.accept()[0])

    threading.Thread(target=loop, daemon=True).start()


def after_request(end: Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    def handle(connection: socket.socket) -> None:
        connection.recv(65536)
        end(connection)

    return handle


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def answer(data: bytes, *, tcp: bool) -> bytes | None:
    request = DNSRecord.parse(data)
    name, kind = str(request.q.qname), QTYPE[request.q.qtype]
    if name == "mute.test.":
        return None
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
    return bytes(reply.pack())


def resolve(stream: socket.socket, datagrams: socket.socket) -> None:
    def one(connection: socket.socket) -> None:
        data = connection.recv(65536)
        reply = answer(data[2:], tcp=True)
        if reply is not None:
            whole = struct.pack(">H", len(reply)) + reply
            connection.sendall(whole[:7])
            connection.sendall(whole[7:])
        connection.close()

    def loop() -> None:
        with contextlib.suppress(OSError):
            while True:
                data, client = datagrams.recvfrom(4096)
                reply = answer(data, tcp=False)
                if reply is not None:
                    datagrams.sendto(b"\0" * 12, client)  # not an answer to this question: to be ignored
                    datagrams.sendto(reply, client)

    serve(stream, one)
    threading.Thread(target=loop, daemon=True).start()


@contextlib.contextmanager
def servers() -> Iterator[dict[str, int]]:
    """Ports by the names that the golden conversations use."""
    with contextlib.ExitStack() as stack:
        ports: dict[str, int] = {}

        def keep(name: str, *sockets: socket.socket) -> tuple[socket.socket, ...]:
            for one in sockets:
                stack.callback(one.close)
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
        resolve(*keep("$DNS", *both()))
        ports["$ECHO"] = unused()
        program = [sys.executable, "-I", "-S", "-u", str(PROGRAMS / "echo_server.py"), "--ports", str(ports["$ECHO"])]
        environment = {"POD_NAMESPACE": "ns", "POD_NAME": "echo", "NODE_NAME": "w1"}
        process = subprocess.Popen(program, stdout=subprocess.PIPE, env=environment)
        stack.callback(process.wait, 5)
        stack.callback(process.kill)
        assert process.stdout is not None
        stack.callback(process.stdout.close)
        assert b'"listening"' in process.stdout.readline()
        yield ports
