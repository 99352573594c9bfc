# SPDX-License-Identifier: Apache-2.0
"""A hostile API server: a lab's server behind a gateway that changes answers as an attacker would.

Names, labels, conditions, events, logs and the output of execs then contain terminal escape
sequences, commands of CI systems, markup, parts of paths, and secrets.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.lab.fault_proxy import FaultProxy, _head, _relay

Obj = dict[str, Any]
ESCAPES = (
    "\x1b]0;owned\x07\x1b[2J\x1b[8m\x9b31m\u202e\u2028\u0085\u200b\rBACK\x00\x7f"
    "\x1b]8;;http://hostile.example\x1b\\link\x1b]8;;\x1b\\"
    "\x9d0;x\x9c\u2066\u2069\u061c\u2060\ufeff\U000e0041"
)
COMMANDS = (
    "\n::error file=hostile::x\n##vso[task.complete result=Succeeded;]x\n \t::add-mask::x"
    "\n##[error]x ##vso[task.x]\r\n::stop-commands::x\r::group::x\u2028::warning::x\v::x"
    "\n\u00a0::set-output name=x::y\n\u3000::x ##teamcity[message text='x']"
)
MARKUP = "<script>alert('hostile')</script><img src=x onerror=alert(1)>`|[x](javascript:alert(1))"
PATHS = "/../../../../hostile"
SECRETS = (
    "ghp_" + "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "hvs." + "CAESIJ0aB3dE5gH7jK9mN1pQ3r",
    "AKIA" + "IOSFODNN7HOSTILE",
    "hunter2" + "-of-the-hostile",
)
TOLD = f"{SECRETS[0]} {SECRETS[1]} {SECRETS[2]} password={SECRETS[3]}"
WORDS = f"hostile{ESCAPES}{COMMANDS}{MARKUP}{PATHS} {TOLD}"
NAME = f"hostile{ESCAPES}{COMMANDS}{MARKUP}{PATHS}"


def node(like: Obj) -> Obj:
    """Return a node that is not ready and has hostile texts in all its fields."""
    status = json.loads(json.dumps(like["status"]))
    status["conditions"] = [{"type": "Ready", "status": "False", "reason": NAME, "message": WORDS}]
    meta = like["metadata"]
    labels = {**meta["labels"], "hostile": WORDS, WORDS: "x"}
    return {
        **like,
        "metadata": {**meta, "name": NAME, "uid": "h", "labels": labels},
        "status": status,
    }


def pod(like: Obj) -> Obj:
    """Return a pod like the given calico-node pod, with a hostile name."""
    return {**like, "metadata": {**like["metadata"], "name": f"calico-node-{NAME}", "uid": "h"}}


def policy(like: Obj) -> Obj:
    """Return a policy of another owner that selects everything."""
    spec = {"selector": "all()", "types": ["Ingress"], "ingress": [{"action": "Allow"}]}
    return {
        "apiVersion": like["apiVersion"],
        "kind": like["kind"].removesuffix("List"),
        "metadata": {"name": NAME, "uid": "h", "annotations": {"a": WORDS}},
        "spec": spec,
    }


def event(of: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "type": "Warning",
        "reason": NAME,
        "message": WORDS,
        "metadata": {"name": NAME, "namespace": "x", "uid": "h"},
        "involvedObject": {"name": of},
        "lastTimestamp": "2099-01-01T00:00:00Z",
    }


def made_hostile(path: str, body: Obj, selected: bool) -> Obj:
    """Return an answer as a hostile server gives it. ``selected``: the request has a label
    selector, which the server obeys."""
    items = body.get("items")
    for each in (body, *(items if isinstance(items, list) else ())):
        info = (
            each.get("status", {}).get("nodeInfo") if isinstance(each.get("status"), dict) else None
        )
        if info:
            info |= {
                name: f"{info.get(name, '')}{WORDS}"
                for name in (
                    "kernelVersion",
                    "osImage",
                    "containerRuntimeVersion",
                    "kubeletVersion",
                )
            }
    if not isinstance(items, list) or selected:
        return body
    if path.endswith("/api/v1/nodes") and items:
        items.append(node(items[-1]))
    of_calico = [each for each in items if each["metadata"]["name"].startswith("calico-node")]
    if path.endswith("/pods") and of_calico:
        items.append(pod(of_calico[0]))
    if path.endswith("/globalnetworkpolicies"):
        items.append(policy(body))
    if path.endswith("/events"):
        items.append(event("x"))
    return body


class HostileApi(FaultProxy):
    """The gateway. ``changed`` counts the objects that it made hostile, by kind."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(kubeconfig, lambda method, target: None)
        self.changed: dict[str, int] = {}

    def _note(self, what: str) -> None:
        with self._lock:
            self.changed[what] = self.changed.get(what, 0) + 1

    def _request(self, client: ssl.SSLSocket) -> bool:
        head, rest = _head(client)
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in lines)}
        while len(rest) < int(headers.get("content-length", 0)):
            rest += client.recv(65536)
        upgrade = "upgrade" in headers
        dropped = ("connection:", "accept-encoding:")
        if not upgrade:
            lines = [line for line in lines if not line.lower().startswith(dropped)]
            lines.append("Connection: close")
        with (
            socket.create_connection(
                (str(self._server.hostname), self._server.port or 443), 30
            ) as plain,
            self._upstream.wrap_socket(plain, server_hostname=self._server.hostname) as server,
        ):
            server.settimeout(600)
            server.sendall("\r\n".join([first, *lines]).encode("latin-1") + b"\r\n\r\n" + rest)
            if upgrade:
                self._exec(client, server)
            elif "watch=" in target or method != "GET":
                _relay(client, server)
            else:
                self._answer(client, server, target)
        return False

    def _answer(self, client: ssl.SSLSocket, server: ssl.SSLSocket, target: str) -> None:
        path = urlsplit(target).path
        answer = http.client.HTTPResponse(server, method="GET")
        answer.begin()
        data = answer.read()
        if path.endswith("/log"):
            self._note("log")
            data += f"2099-01-01 00:00:00.1 [PANIC][1] felix/x.go 1: {WORDS}\n{WORDS}\n".encode()
        elif answer.status == 200:
            before = json.loads(data)
            data = json.dumps(
                made_hostile(path, json.loads(data), "labelSelector" in target)
            ).encode()
            self._note("objects" if json.loads(data) != before else "others")
        kind = answer.getheader("content-type", "application/json")
        head = f"HTTP/1.1 {answer.status} {answer.reason}\r\nContent-Type: {kind}\r\n"
        head += f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
        client.sendall(head.encode() + data)

    def _exec(self, client: ssl.SSLSocket, server: ssl.SSLSocket) -> None:
        """Pass an exec on, and add hostile text to its standard error."""
        head, rest = _head(server)
        client.sendall(head + b"\r\n\r\n" + rest)
        if b" 101 " in head.split(b"\r\n")[0]:
            self._note("exec")
            said = b"\x02" + WORDS.encode()
            client.sendall(b"\x82" + bytes([126]) + len(said).to_bytes(2, "big") + said)
        _relay(client, server)


@contextlib.contextmanager
def hostile_api(kubeconfig: Path, through: Path) -> Iterator[HostileApi]:
    """Run a hostile server for one test; ``through`` is the kubeconfig that points to it."""
    gateway = HostileApi(kubeconfig)
    gateway.write_kubeconfig(through)
    threading.Thread(target=gateway.serve, daemon=True).start()
    try:
        yield gateway
    finally:
        gateway.close()
