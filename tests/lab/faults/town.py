# SPDX-License-Identifier: Apache-2.0
"""A lab with pods in which the effects of faults are noticed."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab.lab_process import RunningLab

AGNHOST = "registry.k8s.io/e2e-test-images/agnhost:2.53"


WRONG_ADDRESS = "203.0.113.9"


NOT_ENFORCED_ON = "linux-2"


SETTLED_WITHIN = 10.0
"""s. Far longer than necessary, so that only a change that never happens exceeds it."""


def pod(
    name: str, node: str, image: str = AGNHOST, arguments: str = "[netexec, --http-port=8080]"
) -> str:
    """Return the manifest of a pod on a node; its agnhost reports the address of each client."""
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default, labels: {{app: {name}}}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 0
  containers: [{{name: main, image: "{image}", args: {arguments}}}]
---
"""


PODS = (
    pod("client", "linux-1", "busybox:1.36", '[sleep, "36000"]')
    + pod("near", "linux-2")
    + pod("far", "linux-3")
    + pod("windows", "windows-2022")
)


SERVICE = """\
apiVersion: v1
kind: Service
metadata: {name: near, namespace: default}
spec: {selector: {app: near}, ports: [{port: 80, targetPort: 8080}]}
"""


DENY_ALL = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: default}
spec: {podSelector: {}, policyTypes: [Ingress]}
"""


@dataclass
class Town:
    """A lab with the pods that show the effects of faults."""

    lab: RunningLab
    control: Path
    addresses: dict[str, str] = field(default_factory=dict)

    def address(self, name: str) -> str:
        """Return a pod's address."""
        if name not in self.addresses:
            self.addresses[name] = self.lab.kubectl(
                "get", "pod", name, "-o", "jsonpath={.status.podIP}"
            ).stdout
        return self.addresses[name]

    def run(self, *command: str, pod: str = "client") -> subprocess.CompletedProcess[str]:
        """Run a command in a pod."""
        return self.lab.kubectl("exec", pod, "--", *command, check=False)

    def fetch(self, host: str) -> str | None:
        """Return the client's address as the server at ``host`` reports it; None: no answer within
        a second."""
        done = self.run("wget", "-T", "1", "-qO-", f"http://{host}/clientip")
        return done.stdout.rpartition(":")[0] if done.returncode == 0 else None

    def reaches(self, name: str) -> bool:
        """Return whether the client gets an answer from a pod at its address."""
        return self.fetch(f"{self.address(name)}:8080") is not None

    def ask(self, **request: Any) -> Any:
        """Send one request to the control socket and return its result."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(str(self.control))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as stream:
                answer = json.loads(stream.readline())
        assert answer["ok"], answer
        return answer["result"]

    @contextmanager
    def fault(self, name: str, **parameters: str) -> Iterator[str]:
        """Inject a fault by the control socket for the length of the block."""
        identity = self.ask(op="inject", fault=name, parameters=parameters)["id"]
        try:
            yield identity
        finally:
            self.ask(op="heal", id=identity)

    @contextmanager
    def deny_all(self) -> Iterator[None]:
        """Deny all traffic to the namespace's pods for the length of the block; afterwards wait
        until they are open again."""
        self.lab.kubectl("apply", "-f", "-", stdin=DENY_ALL)
        try:
            yield
        finally:
            self.lab.kubectl("delete", "networkpolicy", "deny")
            self.eventually("far", reached=True)

    def eventually(self, name: str, *, reached: bool) -> None:
        """Wait until the client reaches a pod, or does not reach it."""
        deadline = time.monotonic() + SETTLED_WITHIN
        while self.reaches(name) != reached:
            assert time.monotonic() < deadline, f"{name} is {'not ' if reached else ''}reached"
