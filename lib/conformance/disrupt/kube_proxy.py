# SPDX-License-Identifier: Apache-2.0
"""Restarts kube-proxy on a node: as a test of its own, or because Services do not work again after
a Windows node got a new HNS network.

If the HNS network is removed, its load balancers are removed, too. At its next sync, kube-proxy
notices that the network's id has changed, and makes the load balancers again. But it does not read
its source address again, and some releases never make the load balancers again
(kubernetes/kubernetes#135802).
"""

from collections.abc import Callable

from conformance.disrupt.awaiting import until_nothing_is_missing
from conformance.disrupt.disruption import Disruption
from conformance.errors import EnvironmentBroken, MissingCapability
from conformance.kube.changes import pod_reference
from conformance.kube.client import Obj
from conformance.kube.pod_state import is_ready, pod_state

NAMESPACE = "kube-system"
LABELS = ("k8s-app=kube-proxy-windows", "k8s-app=kube-proxy")
"""Labels of kube-proxy's DaemonSets: of the DaemonSet that sig-windows-tools deploys, and of the
DaemonSet for all nodes."""


class KubeProxy(Disruption):
    """kube-proxy on the nodes of a cluster."""

    def restart(self, node: str) -> None:
        """Replace the node's kube-proxy pod.

        Raise EnvironmentBroken if kube-proxy runs in no pod or the new pod does not become ready,
        or LockLost.
        """
        if not self._pods(node):
            raise EnvironmentBroken(
                f"Services do not work on node {node} since its HNS network was created again, and "
                "kube-proxy of the "
                f"node runs in no pod of {NAMESPACE} ({' or '.join(LABELS)}): restart the service "
                "kube-proxy on the node"
            )
        self._renew(node, f"makes Services work again on node {node}")

    def renew(self, node: str, back: Callable[[], object]) -> None:
        """Replace the node's kube-proxy pod although nothing is wrong. Then ``back`` checks that
        Services work there again, or raises an error.

        Raise MissingCapability if kube-proxy runs in no pod, and the errors of :meth:`restart`.
        """
        if not self._pods(node):
            raise MissingCapability(
                f"kube-proxy of node {node} runs in no pod of {NAMESPACE} ({' or '.join(LABELS)})",
                "run it as a DaemonSet",
            )
        self._renew(node, f"restarts kube-proxy on node {node}")
        back()

    def _renew(self, node: str, why: str) -> None:
        before = self._pods(node)
        uids = {item["metadata"]["uid"] for item in before}
        for item in before:
            self.journal.delete_owned_pod(pod_reference(item), why)

        def missing() -> list[str]:
            new = [pod for pod in self._pods(node) if pod["metadata"]["uid"] not in uids]
            states = [f"{item['metadata']['name']} {pod_state(item)}" for item in new]
            return [] if any(map(is_ready, new)) else states or ["no pod"]

        until_nothing_is_missing(
            missing,
            within=self.patience.pod_ready,
            every=self.patience.poll_every,
            description=f"a new kube-proxy on node {node} is ready",
            late=f"kube-proxy on node {node} is not back",
            clock=self.clock,
        )

    def _pods(self, node: str) -> list[Obj]:
        found = [
            obj
            for labels in LABELS
            for obj in self.kube.objects("v1", "Pod", NAMESPACE, labels=labels)
        ]
        return [item for item in found if item["spec"].get("nodeName") == node]
