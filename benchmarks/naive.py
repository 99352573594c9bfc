# SPDX-License-Identifier: Apache-2.0
"""The method of other conformance suites: one exec per probe, with its exit status as the verdict.

The commands are ``nc -vz`` on Linux and ``Invoke-WebRequest`` on Windows. They run through an exec
as users of client-go see it: no error means "connected", any error means "denied". Kubernetes'
netpol suite works in this way, and repeats a probe with an unexpected result once. The benchmarks
use this module only for comparison.
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
"""The number of attempts. As in ValidateOrFail of kubernetes/test/e2e/network/netpol, a probe with
an unexpected result is repeated once."""


def command(source: Workload, target: Target, give_up: int) -> tuple[str, ...]:
    """Return the command exactly as the documents have it; ``give_up`` is in whole seconds."""
    if source.os == "windows":
        url = f"http://{target.host}:{target.port}/"
        script = f"Invoke-WebRequest -UseBasicParsing -TimeoutSec {give_up} {url}"
        return ("powershell.exe", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command", script)
    return ("nc", "-vz", "-w", str(give_up), target.host, str(target.port))


@dataclass
class Naive:
    """A prober that runs one exec per probe."""

    kube: Kube
    give_up: int = 1
    """s. The time-out that is given to the command itself."""
    patience: float = 10.0
    """s. The time limit of one exec."""
    execs: int = 0

    def connected(self, source: Workload, target: Target) -> bool:
        """Return whether the exec succeeded; any failure of the exec counts as "denied"."""
        self.execs += 1
        try:
            return self._exec(source, command(source, target, self.give_up))
        except Exception:  # the method counts every error as denied
            return False

    def confirms(self, source: Workload, target: Target, *, allowed: bool) -> bool:
        """Return whether the probe, or its repetition, has the expected result."""
        return any(self.connected(source, target) is allowed for _ in range(TRIES))

    def matrix(self, pairs: Sequence[tuple[Workload, Target]], workers: int) -> list[bool]:
        """Probe every pair once with this number of parallel workers."""
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(lambda pair: self.connected(*pair), pairs))

    def _exec(self, source: Workload, argv: Sequence[str]) -> bool:
        """Return whether the exit status is 0. As in client-go, an orderly end of the connection
        without a status counts as 0."""
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
