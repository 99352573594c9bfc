# probe-protocol: 1
"""Echo server for Linux pods: says over HTTP and UDP whom it saw and who it is, as docs/probe-protocol.md says.

Python 3.8 or later, standard library only.  Identity comes from POD_NAMESPACE, POD_NAME and NODE_NAME.
"""

import hashlib
import json
import os
import selectors
import socket
import sys
import threading

PROTOCOL = 1
MARK = "@@PROBE@@ "
HEAD_LIMIT = 65536
BODY_LIMIT = 16 * 1024 * 1024
SHORT = 512
"""UDP requests up to this size come back whole after the identity line; longer ones get an answer of their own size."""
SLOW = 30.0
"""Seconds a connection may stay silent."""

POD = "%s/%s" % (os.environ.get("POD_NAMESPACE", ""), os.environ.get("POD_NAME") or socket.gethostname())
NODE = os.environ.get("NODE_NAME", "")


def identity(client, server):
    return {
        "client": client[0], "client_port": client[1], "server": server[0], "server_port": server[1],
        "pod": POD, "node": NODE,
    }


def read_request(connection):
    """(method, path, body) of one request, or None when the client closed before it was whole."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more or len(data) > HEAD_LIMIT:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    size = 0
    for line in lines[1:]:
        key, _, value = line.partition(":")
        if key.strip().lower() == "content-length" and value.strip().isdigit():
            size = min(int(value), BODY_LIMIT)
    while len(body) < size:
        more = connection.recv(65536)
        if not more:
            return None
        body += more
    return words[0], words[1] if len(words) > 1 else "/", body


def serve(connection, client):
    try:
        connection.settimeout(SLOW)
        request = read_request(connection)
        if request is None:
            return
        method, _, body = request
        who = identity(client, connection.getsockname())
        kind = "application/octet-stream"
        if method != "POST":
            body, kind = (json.dumps(who) + "\n").encode("ascii"), "application/json"
        fields = [
            "HTTP/1.0 200 OK", "Content-Type: " + kind, "Content-Length: %d" % len(body), "Connection: close",
            "X-Probe-Client: " + who["client"], "X-Probe-Client-Port: %d" % who["client_port"],
            "X-Probe-Server: " + who["server"], "X-Probe-Pod: " + POD, "X-Probe-Node: " + NODE,
        ]
        connection.sendall(("\r\n".join(fields) + "\r\n\r\n").encode("ascii") + body)
    except OSError:
        pass  # the client went away: its own business
    finally:
        connection.close()


def answer(request, client, server):
    """What a datagram is answered with."""
    line = (json.dumps(identity(client, server)) + "\n").encode("ascii")
    if request.startswith(b"?"):
        return line
    return line + (request if len(request) <= SHORT else request[len(line) :])


def main(arguments):
    ports = [8080]
    for name, value in zip(arguments[::2], arguments[1::2]):
        if name != "--ports":
            raise SystemExit("echo_server.py: unknown option %s" % name)
        ports = [int(one) for one in value.split(",")]
    selector = selectors.DefaultSelector()
    for port in ports:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("0.0.0.0", port))
        listener.listen(512)
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO: which of our addresses was asked
        datagrams.bind(("0.0.0.0", port))
        selector.register(listener, selectors.EVENT_READ)
        selector.register(datagrams, selectors.EVENT_READ)
    with open(os.path.abspath(__file__), "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    ready = {"type": "listening", "protocol": PROTOCOL, "program": "echo_server.py", "sha256": digest, "ports": ports}
    sys.stdout.write(MARK + json.dumps(ready) + "\n")
    sys.stdout.flush()
    while True:
        for key, _ in selector.select():
            if key.fileobj.type == socket.SOCK_STREAM:
                try:
                    connection, client = key.fileobj.accept()
                except OSError:
                    continue  # the client gave up between its SYN and our accept
                threading.Thread(target=serve, args=(connection, client), daemon=True).start()
                continue
            try:
                request, extra, _, client = key.fileobj.recvmsg(65535, 64)
            except OSError:
                continue  # an ICMP error about an earlier answer
            port = key.fileobj.getsockname()[1]
            local = next((socket.inet_ntoa(data[4:8]) for _, kind, data in extra if kind == 8), "")
            try:
                key.fileobj.sendto(answer(request, client, (local, port)), client)
            except OSError:
                pass  # the client is not reachable (any more)


if __name__ == "__main__":
    main(sys.argv[1:])
