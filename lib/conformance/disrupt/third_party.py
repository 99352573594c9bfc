# SPDX-License-Identifier: Apache-2.0
"""Pods of other owners' DaemonSets on a node. A drain leaves these pods there, and they lose their
network when the node's HNS network is removed. A running pod gets no new endpoint
(projectcalico/calico#5164): its network stays dead until the pod is deleted and its DaemonSet
creates a new pod."""

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.disrupt.awaiting import until_nothing_is_missing
from conformance.disrupt.disruption import Disruption
from conformance.disrupt.drain import DEFAULT_GRACE, grace
from conformance.disrupt.healer import Healer
from conformance.kube.changes import pod_reference
from conformance.kube.pod_state import is_ready, pod_state
from conformance.pods.third_party import daemonset_of, label, third_party_pods

DAEMONSET_PODS = Healer(
    name="daemonset-pods",
    why="pods of DaemonSets on node {node} are about to lose their network",
    undo=lambda parts, arguments: parts.third_party_pods.renew(
        str(arguments["node"]), arguments["pods"]
    ),
)


class ThirdPartyPods(Disruption):
    """The pods of other owners on one cluster, and how they are replaced."""

    def on(self, node: str) -> list[dict[str, str]]:
        """Return the other owners' pods on a node: namespace, name and uid."""
        keys = ("namespace", "name", "uid")
        return [
            {key: pod["metadata"][key] for key in keys} for pod in third_party_pods(self.kube, node)
        ]

    def note(self, node: str) -> tuple[Any, list[dict[str, str]]]:
        """Record the pods of other owners on a node before they lose their network. Return the
        journal's entry, which must be closed afterwards, and its contents.
        """
        pods = self.on(node)
        return (DAEMONSET_PODS.note(self.journal, node, pods=pods) if pods else None), pods

    def renewed(self, node: str, entry: Any, pods: Sequence[Mapping[str, str]]) -> None:
        """Delete the recorded pods, wait until their DaemonSets' new pods are ready, and close the
        entry."""
        self.renew(node, pods)
        if entry is not None:
            self.journal.close(entry)

    def renew(self, node: str, pods: Sequence[Mapping[str, str]]) -> None:
        """Delete these pods, unless they were replaced already, and wait for the new pods. Raise
        EnvironmentBroken."""
        awaited: dict[str, str] = {}
        longer = 0.0
        for pod in pods:
            found = self.kube.find("v1", "Pod", pod["name"], pod["namespace"])
            if found is None or found["metadata"].get("uid") != pod["uid"]:
                continue
            if found["spec"].get("nodeName") != node or not daemonset_of(found):
                continue  # no controller would make another pod on this node
            self.journal.delete_owned_pod(
                pod_reference(found),
                f"node {node} has created its network again, and only new pods are connected to "
                "the network",
            )
            awaited[daemonset_of(found)] = label(found)
            longer = max(longer, grace(found) - DEFAULT_GRACE)
        if awaited:
            self._back(node, awaited, {pod["uid"] for pod in pods}, longer)

    def _back(self, node: str, awaited: Mapping[str, str], old: set[str], longer: float) -> None:
        """Wait until each DaemonSet has a new, ready pod on the node. ``longer``: additional
        seconds that the end of the old pods may take."""

        def missing() -> list[str]:
            there = [
                pod
                for pod in third_party_pods(self.kube, node)
                if pod["metadata"]["uid"] not in old
            ]
            ready = {daemonset_of(item) for item in there if is_ready(item)}
            states = {daemonset_of(item): f"{label(item)} {pod_state(item)}" for item in there}
            late = {owner: was for owner, was in awaited.items() if owner not in ready}
            return [states.get(owner, f"no successor of {was}") for owner, was in late.items()]

        until_nothing_is_missing(
            missing,
            within=self.patience.pod_ready + longer,
            every=self.patience.poll_every,
            clock=self.clock,
            description=f"DaemonSets have their pods on node {node} again",
            late=f"pods of DaemonSets on node {node} are not back",
        )
