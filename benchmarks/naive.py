# SPDX-License-Identifier: Apache-2.0
"""The method of the other suites of this field: one exec per probe, and its exit status is the verdict.

``nc -vz`` on Linux, ``Invoke-WebRequest`` on Windows, through the exec of client-go as its users see it: no error is
"connected", any error is "denied".  Kubernetes' netpol suite works like this and probes a wrong result once more.
It is here to be compared with, and used for nothing else.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlencode

import websocket

from conformance.kube.client import Kube
from conformance.model.endpoint import Target, Workload

TRIES = 2
"""As ValidateOrFail in kubernetes/test/e2e/network/netpol: what is not as expected is probed once more."""


def command(source: Workload, target: Target, give_up: int) -> tuple[str, ...]:
    """The documents' literal command; ``give_up`` in whole seconds."""
    if source.os == "windows":
        url = f"http://{target.host}:{target.port}/"
        script = f"Invoke-WebRequest -UseBasicParsing -TimeoutSec {give_up} {url}"
        return ("powershell.exe", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command", script)
    return ("nc", "-vz", "-w", str(give_up), target.host, str(target.port))


@dataclass
class Naive:
    """Probes one by one."""

    kube: Kube
    give_up: int = 1
    """s.  What the command itself waits for."""
    patience: float = 10.0
    """s.  For one exec."""
    execs: int = 0

    def connected(self, source: Workload, target: Target) -> bool:
        """Whether the exec succeeded; any failure of it is "denied"."""
        self.execs += 1
        try:
            return self._exec(source, command(source, target, self.give_up))
        except Exception:  # as the method has it
            return False

    def confirms(self, source: Workload, target: Target, *, allowed: bool) -> bool:
        """Whether a probe, or the second one, is as expected."""
        return any(self.connected(source, target) is allowed for _ in range(TRIES))

    def matrix(self, pairs: Sequence[tuple[Workload, Target]], workers: int) -> list[bool]:
        """Every pair once, by so many workers."""
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(lambda pair: self.connected(*pair), pairs))

    def _exec(self, source: Workload, argv: Sequence[str]) -> bool:
        """Exit status 0, or, as in client-go, a connection that ended in order without any status."""
        configuration = self.kube.access.configuration
        words = [("command", word) for word in argv] + [("stdout", "true"), ("stderr", "true")]
        query = urlencode([*words, ("container", source.container)])
        path = f"/api/v1/namespaces/{source.namespace}/pods/{source.pod}/exec?{query}"
        context = ssl.create_default_context(
            cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data
        )
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
        end = time.monotonic() + self.patience
        connection = websocket.create_connection(
            f"{configuration.host.replace('http', 'ws', 1)}{path}", timeout=self.patience,
            subprotocols=["v5.channel.k8s.io"], sslopt={"context": context}, suppress_origin=True,
            header=[f"{key}: {value}" for key, value in self.kube.headers().items() if key != "Accept"],
        )  # fmt: skip
        status = b""
        try:
            while True:
                connection.settimeout(max(0.01, end - time.monotonic()))
                opcode, data = connection.recv_data()
                if opcode == websocket.ABNF.OPCODE_CLOSE:
                    break
                if data[:1] == b"\x03":
                    status += data[1:]
        finally:
            connection.shutdown()  # type: ignore[no-untyped-call]
        return not status or json.loads(status).get("status") == "Success"
