# probe-protocol: 2
"""Sends requests of HTTP/1.1 that are odd to a server, and prints how each ended.

    python3 -I -S -u raw_http.py ADDRESS PORT

One line of JSON: the name of each request to the status of the answer ("400"), or to "closed", "reset", "refused" or
"no answer".  Exit status 0 whatever the server did.
"""

import json
import socket
import struct
import sys

SECONDS = 5
HEAD = b"GET / HTTP/1.1\r\n"
REQUESTS = {
    "plain": HEAD + b"Host: probe\r\nConnection: close\r\n\r\n",
    "no-host": HEAD + b"Connection: close\r\n\r\n",
    "cut-off": HEAD + b"Host: pro",
    "too-long": HEAD + b"Host: probe\r\nX-Long: " + b"a" * 70000 + b"\r\nConnection: close\r\n\r\n",
    "after-reset": HEAD + b"Host: probe\r\nConnection: close\r\n\r\n",
}


def ended(address, port, name):
    """Return how a request ended."""
    try:
        if name == "after-reset":  # the server lives on after a client that resets in the middle
            first = socket.create_connection((address, port), SECONDS)
            first.sendall(HEAD)
            first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            first.close()
        with socket.create_connection((address, port), SECONDS) as sock:
            sock.settimeout(SECONDS)
            answer = b""
            try:
                sock.sendall(REQUESTS[name])
                if name == "cut-off":
                    sock.shutdown(socket.SHUT_WR)
            except OSError:  # the server may answer before it has read all
                pass
            while len(answer) < 64:
                more = sock.recv(4096)
                if not more:
                    break
                answer += more
    except socket.timeout:
        return "no answer"
    except ConnectionResetError:
        return "reset"
    except ConnectionRefusedError:
        return "refused"
    words = answer.split(b"\r\n")[0].split()
    return words[1].decode("ascii", "replace") if len(words) > 1 else "closed"


if __name__ == "__main__":
    print(json.dumps({name: ended(sys.argv[1], int(sys.argv[2]), name) for name in REQUESTS}))
