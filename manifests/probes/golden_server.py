# probe-protocol: 2
"""Servers for golden conversations (docs/probe-protocol.md, section 11): they drop, reset, answer oddly, resolve.

Python 3.8 or later, standard library only.  By itself it listens on all IPv4 addresses, says one line with the port of
each server by its name in the conversations, and ends with a line that says ``quit``, or its input.
"""

import contextlib
import json
import socket
import struct
import sys
import threading
import time

MARK = "@@PROBE@@ "


# --- sockets ----------------------------------------------------------------------------------------------------------


def local(kind=socket.SOCK_STREAM, port=0, host="127.0.0.1"):
    """A bound socket."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
    sock.bind((host, port))
    return sock


def both(host="127.0.0.1"):
    """A TCP and a UDP socket on one free port."""
    while True:
        stream = local(host=host)
        try:
            return stream, local(socket.SOCK_DGRAM, stream.getsockname()[1], host)
        except OSError:
            stream.close()


def serve(listener, handle, apart=False):
    """Give each connection to ``handle``, ``apart``: in a thread of its own."""
    listener.listen(64)

    def one(connection):
        with contextlib.suppress(OSError):
            handle(connection)

    def loop():
        with contextlib.suppress(OSError):  # closed at the end
            while True:
                connection = listener.accept()[0]
                if apart:
                    threading.Thread(target=one, args=(connection,), daemon=True).start()
                else:
                    one(connection)

    threading.Thread(target=loop, daemon=True).start()


def datagrams(sock, reply):
    """Answer each datagram with those that ``reply`` makes of it."""

    def loop():
        with contextlib.suppress(OSError):
            while True:
                data, client = sock.recvfrom(65535)
                for each in reply(data):
                    sock.sendto(each, client)

    threading.Thread(target=loop, daemon=True).start()


def after_request(end):
    """Ends each connection so once it has said something."""

    def handle(connection):
        connection.recv(65536)
        end(connection)

    return handle


def reset(connection):
    """Close it with an RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# --- HTTP: the path says what is answered -----------------------------------------------------------------------------


def read_request(connection):
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


def http(connection):
    """Answer one request as its path says."""
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
        connection.sendall(
            {
                "plain": ok + pod + b"\r\nhello",
                "status": b"HTTP/1.1 500 Oh no\r\n\r\n",
                "banner": b"SSH-2.0-x\r\n",
                "small": b"http/1.1 200 OK\r\n\r\nx",
                "version": b"HTTP/2 200 OK\r\n\r\nx",
                "headers": ok + pod + b"X-PROBE-NODE:w1\r\nServer: x\r\n\r\nx",
            }.get(words[0], b"")
        )
    if words[-1] == "reset":
        time.sleep(0.1)  # what was sent has arrived
        reset(connection)
    elif words[-1] == "open":
        connection.recv(1)  # until the agent closes
    connection.close()


# --- DNS --------------------------------------------------------------------------------------------------------------

A, NS, CNAME, PTR, TXT, AAAA, SRV = 1, 2, 5, 12, 16, 28, 33


def record(kind, data):
    """A record of the question's own name."""
    return b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 30, len(data)) + data


def labels(name):
    """A name as DNS writes it."""
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".") if part) + b"\0"


def made(query, *records, **more):
    """An answer put together by hand; ``count`` of records said, ``flags`` beside those of a good answer."""
    head = struct.pack(">HHHHH", 0x8180 | more.get("flags", 0), 1, more.get("count", len(records)), 0, 0)
    return query[:2] + head + query[12:] + b"".join(records)


REVERSE = ("010.0.0.5.", "999.0.0.5.", "10.0.5.", "[::1].", "fe80::1%1.")
ZONE = {
    "web.test.": {A: [b"\x0a\0\0\5"]},
    "_http._tcp.web.test.": {SRV: [struct.pack(">HHH", 0, 100, 80) + labels("web.test.")]},
    "5.0.0.10.in-addr.arpa.": {PTR: [labels("web.test.")]},
    "1." + "0." * 29 + "d.f.ip6.arpa.": {PTR: [labels("six.test.")]},
    "big.test.": {A: [bytes([10, 9, 0, number]) for number in range(40)]},
    "zone.test.": {NS: [labels("ns1.test."), labels("ns2.test.")]},
}
ZONE.update((name, {PTR: [labels("name.test.")]}) for name in REVERSE)


def odd(query):
    """Datagrams for the names that are answered in an odd way."""
    good = made(query, record(A, b"\x0a\1\2\3"))
    six = [socket.inet_pton(socket.AF_INET6, item) for item in ("2001:db8:0:0:1:0:0:1", "::ffff:10.0.0.1")]
    alias = record(CNAME, labels("web.test.")) + labels("web.test.") + struct.pack(">HHIH", A, 1, 30, 4) + b"\x0a\0\0\5"
    cut = {TXT: record(TXT, b"\x20hello"), SRV: record(SRV, b"\0\1\0\1\0"), AAAA: record(AAAA, b"\1" * 15)}
    kind = struct.unpack(">H", query[-4:-2])[0]
    return {
        "five": [made(query, record(A, b"\1\2\3\4\5"))],
        "none": [made(query, record(A, b""))],
        "cut": [made(query, cut.get(kind, b""))],
        "bare": [made(query, record(TXT, b""))],
        "fewer": [made(query, record(A, b"\x0a\1\2\3"), count=3)],
        "loop": [made(query, record(CNAME, b"\xc0" + bytes([len(query) + 12])))],
        "huge": [made(query, *[record(A, bytes([10, 2, n // 250, n % 250])) for n in range(300)])],
        "wrong": [bytes([query[0] ^ 1]) + made(query, record(A, b"\6\6\6\6"))[1:], good],
        "other": [made(query.replace(b"\5other", b"\5otter"), record(A, b"\6\6\6\6")), good],
        "blank": [b"", good],
        "mirror": [query, good],
        "garbage": [b"\xff" * 30, b"\0" * 5],
        "capitals": [made(query[:12] + query[12:].upper(), record(A, b"\x0a\1\2\3"))],
        "refused": [made(query, flags=5)],
        "six": [made(query, *[record(AAAA, item) for item in six])],
        "text": [made(query, record(TXT, b"\5hello\5world"), record(TXT, b"\0"))],
        "alias": [made(query, alias, count=2)],
        "closes": [good],
    }


def asked(query):
    """The question's name as a text with a dot at its end, and its type."""
    at, parts = 12, []
    while query[at]:
        parts.append(query[at + 1 : at + 1 + query[at]].decode("utf-8"))
        at += 1 + query[at]
    return ".".join(parts) + ".", struct.unpack(">H", query[at + 1 : at + 3])[0]


def answer(query, tcp):
    """Datagrams that answer a question."""
    name, kind = asked(query)
    if name == "mute.test.":
        return []
    if name.endswith(".test.") and name.partition(".")[0] in odd(query):
        return odd(query)[name.partition(".")[0]]
    if name == "broken.test.":
        reply = made(query, flags=2)
    elif name not in ZONE:
        reply = made(query, flags=3)
    elif name == "big.test." and not tcp:
        reply = made(query, flags=0x200)
    else:
        reply = made(query, *[record(kind, value) for value in ZONE[name].get(kind, [])])
    return [b"\0" * 12, reply]  # the first is not an answer to this question: to be ignored


def resolve(stream, sock):
    """Answer questions over TCP and UDP."""

    def one(connection):
        data = connection.recv(65536)
        for reply in answer(data[2:], True)[-1:]:
            whole = struct.pack(">H", len(reply)) + reply
            connection.sendall(whole[:7])
            if b"\6closes" not in data:
                connection.sendall(whole[7:])
        connection.close()

    serve(stream, one)
    datagrams(sock, lambda data: answer(data, False))


# --- all of them ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def servers(host="127.0.0.1"):
    """Ports by the names that the golden conversations use."""
    with contextlib.ExitStack() as stack:
        ports = {}

        def keep(name, *sockets):
            for item in sockets:
                stack.callback(item.close)
            ports[name] = sockets[0].getsockname()[1]
            return sockets

        full = keep("$DROPPING", local(host=host))[0]
        full.listen(0)
        for _ in range(2):  # a full accept queue: the kernel drops further SYNs
            waiting = socket.socket()
            waiting.setblocking(False)
            stack.callback(waiting.close)
            waiting.connect_ex(("127.0.0.1", ports["$DROPPING"]))
        serve(keep("$RESETTING", local(host=host))[0], after_request(reset))
        serve(keep("$CLOSING", local(host=host))[0], after_request(socket.socket.close))
        silent = []
        serve(keep("$SILENT", *both(host))[0], silent.append)
        serve(keep("$HTTP", local(host=host))[0], http, apart=True)
        resolve(*keep("$DNS", *both(host)))
        datagrams(keep("$EMPTY", local(socket.SOCK_DGRAM, host=host))[0], lambda data: [b""])
        datagrams(keep("$LONG", local(socket.SOCK_DGRAM, host=host))[0], lambda data: [b"u" * 60000])
        datagrams(keep("$COUNT", local(socket.SOCK_DGRAM, host=host))[0], lambda data: [b"%d" % len(data)])
        datagrams(keep("$SAME", local(socket.SOCK_DGRAM, host=host))[0], lambda data: [data])
        yield ports


if __name__ == "__main__":
    with servers("0.0.0.0") as listening:
        print(MARK + json.dumps({"type": "listening", "ports": listening}), flush=True)
        for said in sys.stdin:
            if '"quit"' in said:
                break
