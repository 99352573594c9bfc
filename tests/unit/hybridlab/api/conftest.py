# SPDX-License-Identifier: Apache-2.0
"""A real API server over HTTPS on 127.0.0.1, in the test's event loop or in a thread, and a
scripted kubelet."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
import yaml

from hybridlab.api.authentication import Token
from hybridlab.api.contract import ExecOutcome, NodeAgent, Obj, Streams
from hybridlab.api.core import Settings
from hybridlab.api.server import ApiServer
from tests.unit.hybridlab.builders import a_pod

ADMIN = "admin-token"
ALICE = "alice-token"
EXPIRED = "expired-token"
TOKENS = {
    ADMIN: Token("kubernetes-admin", ("system:masters",)),
    ALICE: Token("alice", ("developers",)),
    EXPIRED: Token("alice", (), expires_at=1.0),
}


class ScriptedAgent:
    """A kubelet with only these commands: ``echo``, ``cat``, ``fail CODE``, ``sleep``."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.log: list[bytes] = [b"one\n", b"two\n"]
        self.asked: dict[str, Any] = {}

    async def exec(
        self, pod: Obj, container: str, argv: tuple[str, ...], streams: Streams
    ) -> ExecOutcome:
        stdin, stdout, stderr = streams.stdin, streams.stdout, streams.stderr
        match argv:
            case ["echo", *words]:
                await stdout.send(" ".join(words).encode())
                await stderr.send(b"noise")
                return ExecOutcome(0)
            case ["cat"]:
                if stdin is not None:
                    while data := await stdin.read(65536):
                        await stdout.send(data)
                return ExecOutcome(0)
            case ["fail", code]:
                return ExecOutcome(int(code))
            case ["sleep"]:
                try:
                    await asyncio.Event().wait()
                finally:
                    self.cancelled.set()
        name = argv[0]
        words_of_runc = f'exec: "{name}": executable file not found in $PATH: unknown'
        return ExecOutcome(
            None,
            f"OCI runtime exec failed: exec failed: unable to start container process: {words_of_runc}",
        )

    async def logs(self, pod: Obj, container: str, **options: Any) -> AsyncIterator[bytes]:
        self.asked = {"container": container, **options}
        for line in self.log:
            yield line


@dataclass
class Answer:
    """Status, body and headers of an answer."""

    code: int
    body: Any
    headers: Any


@dataclass
class Api:
    """A running server, and a client of it."""

    server: ApiServer
    session: aiohttp.ClientSession
    tls: ssl.SSLContext
    agent: ScriptedAgent
    ca: bytes = b""

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = ADMIN,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send one request with a JSON body."""
        given = {"Authorization": f"Bearer {token}"} if token else {}
        if body is not None:
            given["Content-Type"] = "application/json"
        given.update(headers or {})
        data = json.dumps(body) if body is not None and not isinstance(body, bytes) else body
        async with self.session.request(
            method,
            self.server.url + path,
            data=data,
            headers=given,
            ssl=self.tls,
            timeout=aiohttp.ClientTimeout(10),
        ) as reply:
            raw = await reply.read()
            is_json = "json" in reply.headers.get("Content-Type", "")
            is_text = "protobuf" not in reply.headers.get("Content-Type", "")
            body = json.loads(raw) if is_json else raw.decode() if is_text else raw
            return Answer(reply.status, body, reply.headers)

    async def get(self, path: str, **more: Any) -> Any:
        """Return the body of a successful GET."""
        answer = await self.call("GET", path, **more)
        assert answer.code == 200, answer.body
        return answer.body

    async def create(self, path: str, body: Any, **more: Any) -> Any:
        """Create an object and return it."""
        answer = await self.call("POST", path, body, **more)
        assert answer.code == 201, answer.body
        return answer.body

    async def patch(self, path: str, body: Any, kind: str = "merge-patch", **more: Any) -> Answer:
        """Patch an object; the body of a server-side apply is sent as YAML."""
        if kind == "apply-patch":
            body = yaml.safe_dump(body).encode()
            return await self.call(
                "PATCH",
                path,
                body,
                headers={"Content-Type": "application/apply-patch+yaml"},
                **more,
            )
        return await self.call(
            "PATCH", path, body, headers={"Content-Type": f"application/{kind}+json"}, **more
        )

    async def running_pod(self, name: str, namespace: str = "default", **spec: Any) -> Obj:
        """Create a pod, and set its status as if it ran on node ``n1``."""
        client = self.server.client("kubelet")
        await client.create("pods", a_pod(name, namespace=namespace, **spec), namespace)
        await client.create(
            "bindings", {"metadata": {"name": name}, "target": {"name": "n1"}}, namespace
        )
        found = await client.get("pods", name, namespace)
        states = [
            {
                "name": item["name"],
                "image": item["image"],
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }
            for item in found["spec"]["containers"]
        ]
        ready = {"type": "Ready", "status": "True"}
        status = {
            "phase": "Running",
            "podIP": "10.1.0.5",
            "conditions": [ready],
            "containerStatuses": states,
        }
        return await client.patch("pods", name, {"status": status}, namespace, subresource="status")


Serve = Callable[..., AbstractAsyncContextManager[Api]]


@asynccontextmanager
async def serve(
    authority: trustme.CA, settings: Settings, agent_of: Callable[[str], NodeAgent | None] | None
) -> AsyncIterator[Api]:
    """Run a server on a free port of 127.0.0.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    listener = socket.create_server(("127.0.0.1", 0))
    agent: Any = ScriptedAgent()
    server = ApiServer(
        settings, listener=listener, tls=context, agent_of=agent_of or (lambda node: agent)
    )
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Api(server, session, trusting, agent, authority.cert_pem.bytes())
    finally:
        await server.stop()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def api(authority: trustme.CA) -> Serve:
    """Start a server inside the test's loop: ``async with api(history=10) as it``."""

    def start(*, agent_of: Callable[[str], NodeAgent | None] | None = None, **settings: Any) -> Any:
        return serve(authority, replace(Settings(tokens=TOKENS), **settings), agent_of)

    return start


@pytest.fixture
def run(api: Serve) -> Callable[..., None]:
    """Run an async scenario against a fresh server."""

    def run_it(scenario: Callable[[Api], Awaitable[None]], **settings: Any) -> None:
        async def main() -> None:
            async with asyncio.timeout(15):
                async with api(**settings) as it:
                    await scenario(it)

        asyncio.run(main())

    return run_it


@dataclass
class Threaded:
    """A server in a thread of its own, for clients that block."""

    url: str
    kubeconfig: Path
    agent: ScriptedAgent
    ca_file: Path
    loop: asyncio.AbstractEventLoop
    api: Api
    call: Callable[[Awaitable[Any]], Any] = field(default=lambda work: None)


@pytest.fixture
def threaded(api: Serve, tmp_path: Path) -> Iterator[Threaded]:
    ready: threading.Event = threading.Event()
    found: list[Any] = []

    async def main() -> None:
        stop = asyncio.Event()
        async with api() as it:
            found.extend([it, asyncio.get_running_loop(), stop])
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="api server")
    thread.start()
    assert ready.wait(10)
    it, loop, stop = found
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(it.ca)
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"server": it.server.url, "certificate-authority-data": b64encode(it.ca).decode()}
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "lab", "cluster": cluster}],
                "users": [{"name": "admin", "user": {"token": ADMIN}}],
                "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "admin"}}],
                "current-context": "lab",
            }
        )
    )

    def call(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(10)

    try:
        yield Threaded(it.server.url, kubeconfig, it.agent, ca_file, loop, it, call)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
