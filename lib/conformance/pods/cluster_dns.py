# SPDX-License-Identifier: Apache-2.0
"""The pods that answer the cluster's names: who they are, and where each is asked by its own address."""

from dataclasses import dataclass

from conformance.errors import MissingCapability
from conformance.kube.client import Kube, Obj
from conformance.kube.waits import is_ready, restarts
from conformance.model.endpoint import Target, Workload

NAMESPACE = "kube-system"
SELECTOR = "k8s-app=kube-dns"
"""Where kubeadm, the managed platforms and RKE2 run CoreDNS.  OpenShift's is in a namespace of its own."""
PORT = 53


@dataclass(frozen=True)
class ClusterDns:
    """The DNS of one cluster; its pods are read anew each time."""

    kube: Kube
    domain: str

    @property
    def known_name(self) -> str:
        """A name that every cluster has, with a final dot: no search list is tried with it."""
        return f"kubernetes.default.svc.{self.domain}."

    def pods(self) -> list[Target]:
        """The DNS port of each Ready DNS pod.  Raises MissingCapability where none is found, ApiRefused."""
        listed = self.kube.objects("v1", "Pod", NAMESPACE, labels=SELECTOR)
        ready = sorted(
            (pod for pod in listed if is_ready(pod)), key=lambda pod: str(pod["metadata"]["name"])
        )
        if not ready:
            raise MissingCapability(
                f"no Ready pod {SELECTOR} in {NAMESPACE}",
                "ask the cluster's DNS pods by hand where they run",
            )
        return [_workload(pod).udp(_port(pod)) for pod in ready]


def _workload(pod: Obj) -> Workload:
    meta = pod["metadata"]
    spec = pod["spec"]
    status = pod["status"]
    return Workload(
        namespace=meta["namespace"],
        pod=meta["name"],
        container=spec["containers"][0]["name"],
        uid=meta["uid"],
        role="dns",
        os="linux",
        node=spec["nodeName"],
        address=status["podIP"],
        node_address=status["hostIP"],
        host_network=bool(spec.get("hostNetwork")),
        restarts=restarts(pod),
    )


def _port(pod: Obj) -> int:
    """Its first port for datagrams."""
    ports = [
        port for container in pod["spec"]["containers"] for port in container.get("ports") or ()
    ]
    return next(
        (int(port["containerPort"]) for port in ports if port.get("protocol") == "UDP"), PORT
    )
