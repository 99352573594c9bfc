# SPDX-License-Identifier: Apache-2.0
"""The two servers of the conversations: the lab's, and a real kube-apiserver with etcd on
loopback."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from hybridlab.api.authentication import Token
from hybridlab.api.core import Settings
from hybridlab.api.server import ApiServer
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.daemonsets import DaemonSets
from hybridlab.controllers.deployments import Deployments
from hybridlab.controllers.disruption import DisruptionBudgets
from hybridlab.controllers.endpoints import EndpointsController
from hybridlab.controllers.events import Recorder
from hybridlab.controllers.mirroring import EndpointsMirroring
from hybridlab.controllers.replicasets import ReplicaSets
from tests.contract.apiserver.holding import ADMIN, Server

USERS = {ADMIN: ("kubernetes-admin", "system:masters"), "alice-token": ("alice", "developers")}
"""Map each bearer token to its user and group, on both servers."""
_CONTROLLERS = (
    "namespace-controller", "garbage-collector-controller", "serviceaccount-controller",
    "root-ca-certificate-publisher-controller", "deployment-controller", "replicaset-controller",
    "daemonset-controller", "endpoints-controller", "endpointslice-controller",
    "endpointslice-mirroring-controller", "disruption-controller",
)  # fmt: skip
"""The real controllers that the lab also has."""
_READY_SECONDS = 120.0


# ---- the lab's
@contextmanager
def lab_server() -> Iterator[Server]:
    """Run the lab's API server and its controllers of workloads in a thread."""
    authority = trustme.CA()
    ready = threading.Event()
    stop: list[asyncio.Event] = []
    found: list[Server] = []

    async def main() -> None:
        stop.append(asyncio.Event())
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(tls)
        certificate = authority.cert_pem.bytes().decode()
        tokens = {token: Token(user, (group,), uid=user) for token, (user, group) in USERS.items()}
        listener = socket.create_server(("127.0.0.1", 0))
        server = ApiServer(
            Settings(tokens=tokens, ca_certificate=certificate), listener=listener, tls=tls
        )
        client = server.client("system:kube-controller-manager")
        caches, recorder = Caches(client), Recorder(client)
        controllers = (
            Deployments(client, caches, recorder),
            ReplicaSets(client, caches, recorder),
            DaemonSets(client, caches, recorder),
            DisruptionBudgets(client, caches),
            EndpointsController(client, caches),
            EndpointsMirroring(client, caches),
        )
        await server.start()
        recorder.start()
        await caches.start()
        for controller in controllers:
            controller.start()
        found.append(Server(server.url, certificate))
        ready.set()
        await stop[0].wait()
        for controller in controllers:
            await controller.stop()
        await recorder.stop()
        await caches.stop()
        await server.stop()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(main()), name="the lab's API server"
    )
    thread.start()
    assert ready.wait(20), "the lab's API server did not start"
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(stop[0].set)
        thread.join(20)
        loop.close()


# ---- a real one
def missing_binaries(assets: Path) -> list[str]:
    """Return the binaries that a folder lacks for a real server."""
    return [name for name in ("etcd", "kube-apiserver") if not (assets / name).exists()]


@contextmanager
def real_server(assets: Path, folder: Path) -> Iterator[Server]:
    """Run etcd, kube-apiserver and, if the binary exists, kube-controller-manager; ``folder`` is
    for their files and logs."""
    authority = trustme.CA()
    certificate = authority.cert_pem.bytes().decode()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    own = authority.issue_cert("127.0.0.1", "localhost", "kubernetes.default.svc")
    own.private_key_pem.write_to_path(folder / "key.pem")
    for position, part in enumerate(own.cert_chain_pems):
        part.write_to_path(folder / "cert.pem", append=position > 0)
    _write_keys(folder)
    rows = [f"{token},{user},{user},{group}" for token, (user, group) in USERS.items()]
    (folder / "tokens.csv").write_text("\n".join(rows) + "\n")
    store, peers, port = (_free_port() for _ in range(3))
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *options: str) -> None:
        with (folder / f"{name}.log").open("wb") as log:
            environment = {"PATH": os.environ.get("PATH", "")}
            started.append(
                subprocess.Popen([assets / name, *options], stdout=log, stderr=log, env=environment)
            )

    client, peer = f"http://127.0.0.1:{store}", f"http://127.0.0.1:{peers}"
    url = f"https://127.0.0.1:{port}"
    try:
        start(
            "etcd", "--data-dir", str(folder / "etcd"), "--listen-client-urls", client,
            "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
            "--unsafe-no-fsync",
        )  # fmt: skip
        start("kube-apiserver", *_apiserver_options(folder, client, port))
        server = Server(url, certificate, controllers=(assets / "kube-controller-manager").exists())
        _wait_until_ready(server, started[1], folder)
        if server.controllers:
            write_kubeconfig(folder / "admin.yaml", url, folder / "ca.pem")
            start(
                "kube-controller-manager", "--kubeconfig", str(folder / "admin.yaml"), "--bind-address", "127.0.0.1",
                "--secure-port", "0", "--root-ca-file", str(folder / "ca.pem"), "--leader-elect=false",
                "--service-account-private-key-file", str(folder / "accounts.key"),
                f"--controllers={','.join(_CONTROLLERS)}",
            )  # fmt: skip
        yield server
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def _apiserver_options(folder: Path, store: str, port: int) -> list[str]:
    """Return the options of kube-apiserver. TaintNodesByCondition is off: the lab has no controller
    that would remove its taint again."""
    options = {
        "etcd-servers": store,
        "bind-address": "127.0.0.1",
        "secure-port": str(port),
        "advertise-address": "192.0.2.1",
        "tls-cert-file": str(folder / "cert.pem"),
        "tls-private-key-file": str(folder / "key.pem"),
        "client-ca-file": str(folder / "ca.pem"),
        "token-auth-file": str(folder / "tokens.csv"),
        "authorization-mode": "RBAC",
        "service-cluster-ip-range": "10.96.0.0/12",
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-key-file": str(folder / "accounts.pub"),
        "service-account-signing-key-file": str(folder / "accounts.key"),
        "disable-admission-plugins": "TaintNodesByCondition",
        "allow-privileged": "true",
    }
    return [f"--{name}={value}" for name, value in options.items()]


def _write_keys(folder: Path) -> None:
    """Write the key pair of ServiceAccount tokens."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (folder / "accounts.key").write_bytes(private)
    (folder / "accounts.pub").write_bytes(public)


def write_kubeconfig(path: Path, url: str, authority: Path) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": url, "certificate-authority": str(authority)}}
        ],
        "users": [{"name": "u", "user": {"token": ADMIN}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(json.dumps(document))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _wait_until_ready(server: Server, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            if (
                server.send("GET", "/readyz", headers={"Authorization": f"Bearer {ADMIN}"})[0]
                == 200
            ):
                return
        except OSError:
            pass
        time.sleep(0.2)
    tail = (folder / "kube-apiserver.log").read_text(errors="replace")[-2000:]
    raise RuntimeError(f"kube-apiserver did not become ready:\n{tail}")
