# SPDX-License-Identifier: Apache-2.0
"""The pods of the cluster's DNS, and the address at which each pod can be queried directly."""

from dataclasses import dataclass

from conformance.errors import MissingCapability
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import pod_address
from conformance.kube.pod_state import is_ready, restarts
from conformance.model.endpoint import Target, Workload

NAMESPACE = "kube-system"
SELECTOR = "k8s-app=kube-dns"
"""The label of the cluster's DNS pods in ``kube-system``, which kubeadm, the managed platforms and
RKE2 use for CoreDNS. OpenShift's DNS pods are in a namespace of their own."""
PORT = 53


@dataclass(frozen=True)
class ClusterDns:
    """The DNS of a cluster; its pods are read at each call."""

    kube: Kube
    domain: str

    @property
    def known_name(self) -> str:
        """Return a name that every cluster has, with a final dot, so that no search list is applied
        to it."""
        return f"kubernetes.default.svc.{self.domain}."

    def pods(self) -> list[Target]:
        """Return the DNS port of each Ready DNS pod. Raise ApiRefused, or MissingCapability if no
        Ready pod is found."""
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
        address=pod_address(status),
        node_address=status["hostIP"],
        host_network=bool(spec.get("hostNetwork")),
        restarts=restarts(pod),
    )


def _port(pod: Obj) -> int:
    """Return the pod's first UDP port."""
    ports = [
        port for container in pod["spec"]["containers"] for port in container.get("ports") or ()
    ]
    return next(
        (int(port["containerPort"]) for port in ports if port.get("protocol") == "UDP"), PORT
    )
