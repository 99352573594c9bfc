"""Pods of other people's DaemonSets on a node, which a drain leaves there and which lose their network all the same.

Nobody gives a running pod another endpoint (projectcalico/calico#5164): it is dead until it is deleted, and its
DaemonSet makes a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.disrupt.patience import Patience
from conformance.errors import EnvironmentBroken
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import NAMESPACE_PREFIX
from conformance.kube.waits import is_ready, pod_state
from conformance.model.change import ObjectRef
from conformance.timing import SYSTEM_CLOCK, Clock, until
from conformance.undo.journalling import Journalling

DAEMONSET_PODS = "daemonset-pods"
"""Name of the healer, and of the procedure's entries."""


def strangers(kube: Kube, node: str) -> list[Obj]:
    """Pods of DaemonSets on a node that have a pod network and are not the suite's."""
    found = []
    for pod in kube.objects("v1", "Pod", fields=f"spec.nodeName={node}"):
        meta, spec = pod["metadata"], pod["spec"]
        windows = (spec.get("securityContext") or {}).get("windowsOptions") or {}
        on_host = bool(spec.get("hostNetwork") or windows.get("hostProcess"))
        own = str(meta.get("namespace") or "").startswith(NAMESPACE_PREFIX)
        finished = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if _daemonset(pod) and not (on_host or own or finished or meta.get("deletionTimestamp")):
            found.append(pod)
    return found


def label(pod: Obj) -> str:
    """``namespace/name``."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


class Strangers:
    """What becomes of them on one cluster."""

    def __init__(self, kube: Kube, journal: Journalling, patience: Patience, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._kube, self._journal, self._patience, self._clock = kube, journal, patience, clock

    def note(self, node: str) -> tuple[Any, list[dict[str, str]]]:
        """Note those on a node, before they lose their network: the entry to close afterwards, and what it holds."""
        pods = [
            {"namespace": one["metadata"]["namespace"], "name": one["metadata"]["name"], "uid": one["metadata"]["uid"]}
            for one in strangers(self._kube, node)
        ]
        if not pods:
            return None, []
        why = f"pods of DaemonSets on node {node} are about to lose their network"
        return self._journal.procedure(DAEMONSET_PODS, {"node": node, "pods": pods}, why), pods

    def renewed(self, node: str, entry: Any, pods: Sequence[Mapping[str, str]]) -> None:
        """Delete those that were noted, wait until their DaemonSets' new ones are ready, and close the entry."""
        self.renew(node, pods)
        if entry is not None:
            self._journal.close(entry)

    def renew(self, node: str, pods: Sequence[Mapping[str, str]]) -> None:
        """Delete these pods, those that are still the same, and wait for successors.  Raises EnvironmentBroken."""
        awaited: dict[str, str] = {}
        for one in pods:
            found = self._kube.find("v1", "Pod", one["name"], one["namespace"])
            if found is None or found["metadata"].get("uid") != one["uid"]:
                continue
            target = ObjectRef(api_version="v1", kind="Pod", name=one["name"], namespace=one["namespace"])
            self._journal.delete_owned_pod(target, f"gives it a network again, which node {node} has made anew")
            awaited[_daemonset(found)] = label(found)
        if awaited:
            self._back(node, awaited, {one["uid"] for one in pods})

    def _back(self, node: str, awaited: Mapping[str, str], old: set[str]) -> None:
        """Wait until each DaemonSet has a ready pod on the node that is not one of the old ones."""

        def missing() -> dict[str, str]:
            there = [one for one in strangers(self._kube, node) if one["metadata"]["uid"] not in old]
            ready = {_daemonset(one) for one in there if is_ready(one)}
            states = {_daemonset(one): f"{label(one)} {pod_state(one)}" for one in there}
            return {owner: states.get(owner, f"no successor of {was}") for owner, was in awaited.items()
                    if owner not in ready}  # fmt: skip

        settled = until(
            missing, lambda left: not left, within=self._patience.pod_ready, every=self._patience.poll_every,
            description=f"DaemonSets have their pods on node {node} again", clock=self._clock,
        )  # fmt: skip
        if not settled.converged:
            raise EnvironmentBroken(
                f"pods of DaemonSets on node {node} are not back in {settled.seconds:.0f} s: "
                f"{'; '.join(settled.last.values())}"
            )


def _daemonset(pod: Obj) -> str:
    """Its DaemonSet, by namespace and name; empty when it has none."""
    owners = pod["metadata"].get("ownerReferences") or []
    owner = next((one for one in owners if one.get("controller") and one.get("kind") == "DaemonSet"), None)
    return f"{pod['metadata']['namespace']}/{owner['name']}" if owner else ""
