# SPDX-License-Identifier: Apache-2.0
"""A workload of another owner beside disruptive tests: its traffic must be the same afterwards as
before.

It consists of a Linux and a Windows Deployment with a Service each, in a namespace outside the
suite. It is controlled only by kubectl, as its owner would do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

from tests.lab.lab_process import RunningLab

Kind = Literal["plain", "blanket"]
TOLERATIONS: dict[Kind, list[dict[str, str]]] = {
    "plain": [{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}],
    "blanket": [{"operator": "Exists", "effect": "NoSchedule"}],
}
"""The tolerations of its Windows pods. plain: only for the taint of Windows nodes. blanket: for
every taint, as in many charts, including the taint of a cordoned node."""
NAMESPACE = "somebody-else"
AGNHOST = "registry.k8s.io/e2e-test-images/agnhost:2.53"
PORT = 8080
PROGRAM = {"linux": "/agnhost", "windows": "agnhost.exe"}
REPLICAS = {"linux": 1, "windows": 2}
WELL_WITHIN = 60.0
"""s. The time limit within which Services and policies reach all nodes, and controllers replace
pods."""
ANSWERS_WITHIN = "2s"


@dataclass(frozen=True)
class Bystander:
    """One workload on a lab."""

    lab: RunningLab
    kind: Kind
    before: dict[str, bool] = field(default_factory=dict)
    """The paths that were open when it was deployed."""
    were_there: set[str] = field(default_factory=set)
    """The uids of its pods at that time."""

    def deploy(self) -> None:
        """Deploy the workload and wait until all its paths are open. Raises RuntimeError."""
        self.start()
        self.before.update(self._settled(lambda ways: all(ways.values())))
        if shut := sorted(way for way, is_open in self.before.items() if not is_open):
            raise RuntimeError(
                f"the bystander's own traffic does not pass before anything was disrupted: {shut}"
            )
        self.were_there.update(self.pods())

    def start(self) -> None:
        """Deploy the workload and wait until its pods are Ready, without any check of their
        traffic."""
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        objects = [space, *(made for os in PROGRAM for made in self._objects(os))]
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.lab.kubectl("apply", "-f", "-", stdin=document)
        for os in PROGRAM:
            self.lab.kubectl(
                "-n", NAMESPACE, "rollout", "status", f"deployment/{os}", "--timeout=50s"
            )

    def remove(self) -> None:
        """Remove the workload with its namespace."""
        self.lab.kubectl("delete", "namespace", NAMESPACE, "--timeout=50s")

    def lost(self) -> list[str]:
        """Return the paths that were open and no longer are, once controllers have done their work."""
        ways = self._settled(lambda ways: ways == self.before)
        return [
            f"bystander ({self.kind}): no traffic {way}"
            for way, was in self.before.items()
            if was != ways.get(way)
        ]

    def pods(self) -> dict[str, str]:
        """Map the uid of each of its pods that is not ending to the node."""
        found = json.loads(self.lab.kubectl("-n", NAMESPACE, "get", "pods", "-o", "json").stdout)[
            "items"
        ]
        alive = [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]
        return {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in alive}

    def _settled(self, enough: Any) -> dict[str, bool]:
        deadline = time.monotonic() + WELL_WITHIN
        while not enough(ways := self.ways()) and time.monotonic() < deadline:
            time.sleep(0.5)
        return ways

    def ways(self) -> dict[str, bool]:
        """Map each direction to whether all its pods get through: to pods, to ClusterIPs and to
        names."""
        found = json.loads(
            self.lab.kubectl("-n", NAMESPACE, "get", "pods,services", "-o", "json").stdout
        )["items"]
        pods = [
            item
            for item in found
            if item["kind"] == "Pod" and not item["metadata"].get("deletionTimestamp")
        ]
        services = {
            item["metadata"]["name"]: item["spec"]["clusterIP"]
            for item in found
            if item["kind"] == "Service"
        }
        asked: list[tuple[str, str, str, str]] = []
        for client, os in product(pods, PROGRAM):
            own, role = client["metadata"]["name"], client["metadata"]["labels"]["app"]
            servers = [
                pod for pod in pods if pod["metadata"]["labels"]["app"] == os and pod is not client
            ]
            goals = {
                f"pod {n}": (pod.get("status") or {}).get("podIP") or "none"
                for n, pod in enumerate(servers)
            }
            goals |= {
                "ClusterIP": services.get(os, "none"),
                "name": f"{os}.{NAMESPACE}.svc.cluster.local",
            }
            asked += [
                (own, role, f"{role} to {os} by {how.split()[0]}", goal)
                for how, goal in goals.items()
            ]
        with ThreadPoolExecutor(4) as pool:
            answers = list(
                pool.map(lambda one: (one[2], self._reaches(one[0], one[1], one[3])), asked)
            )
        return {way: all(passes for name, passes in answers if name == way) for way, _ in answers}

    def _reaches(self, pod: str, role: str, goal: str) -> bool:
        command = (PROGRAM[role], "connect", f"{goal}:{PORT}", f"--timeout={ANSWERS_WITHIN}")
        return (
            self.lab.kubectl("-n", NAMESPACE, "exec", pod, "--", *command, check=False).returncode
            == 0
        )

    def _objects(self, os: str) -> list[Mapping[str, Any]]:
        meta, labels = {"name": os, "namespace": NAMESPACE}, {"app": os}
        server = {
            "name": "main", "image": AGNHOST, "args": ["netexec", f"--http-port={PORT}"],
            "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        }  # fmt: skip
        spec = {
            "nodeSelector": {"kubernetes.io/os": os},
            "terminationGracePeriodSeconds": 5,
            "containers": [server],
        }
        if os == "windows":
            spec["tolerations"] = TOLERATIONS[self.kind]
        template = {"metadata": {"labels": labels}, "spec": spec}
        return [
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {
                "replicas": REPLICAS[os], "selector": {"matchLabels": labels}, "template": template,
            }},
            {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {
                "selector": labels, "ports": [{"port": PORT, "targetPort": PORT}],
            }},
        ]  # fmt: skip
