# SPDX-License-Identifier: Apache-2.0
"""The pods that run a cluster as a whole: Kubernetes' control plane, the cluster's DNS, Calico's
cluster-wide parts.

They are found by labels and owners, since distributions give these pods names of their own, such as
``rke2-coredns-rke2-coredns-...``.
"""

import functools
from collections.abc import Callable, Iterable

from conformance.errors import NotAboutThisCluster
from conformance.facts.installed import owner
from conformance.facts.reading import required
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import mapping_at, value_at
from conformance.kube.pod_state import is_ready
from conformance.model.facts import Fact, Facts

NAMESPACES = (
    "kube-system", "calico-system", "calico-apiserver", "tigera-operator", "openshift-dns", "openshift-etcd",
    "openshift-kube-apiserver", "openshift-kube-controller-manager", "openshift-kube-scheduler",
)  # fmt: skip
LABELS = {
    "tier": {"control-plane"},
    "component": {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"},
    "k8s-app": {
        "kube-dns", "etcd", "kube-scheduler", "calico-kube-controllers", "calico-typha", "calico-apiserver",
        "tigera-operator",
    },
    "app": {"openshift-kube-apiserver", "kube-controller-manager", "openshift-kube-scheduler", "etcd"},
}  # fmt: skip
"""The labels that kubeadm, RKE2, OpenShift and Calico give the pods that run a cluster. The
cluster's DNS has ``kube-dns`` everywhere but on OpenShift."""
TYPHA = "calico-typha"
CONTROLLERS = "calico-kube-controllers"
API_SERVER = "calico-apiserver"
ELSEWHERE = "not on Windows"
OWNERS = {
    TYPHA,
    CONTROLLERS,
    API_SERVER,
    "calico-webhooks",
    "tigera-operator",
    "coredns",
    "kube-dns",
    "dns-default",
}
"""The DaemonSets and Deployments that own the pods that run a cluster."""


class ClusterWide:
    """Reads the facts about cluster-wide components for one worker; each read lists the pods
    anew."""

    def __init__(self, kube: Kube, facts: Facts) -> None:
        self._kube = kube
        self._facts = facts
        self._systems = {node.name: str(node.os) for node in facts.nodes}

    def pods(self) -> dict[str, Fact[str]]:
        """Map each pod that runs the cluster to its node's operating system, or to ``no node`` if
        the pod waits for a node."""
        found = {}
        for pod in filter(_whole, self._pods()):
            node = pod["spec"].get("nodeName") or ""
            found[f"operating system under {_name(pod)}"] = Fact(
                self._systems.get(node, "no node"), f".spec.nodeName {node or '(none)'}"
            )
        return found

    def typha(self) -> dict[str, Fact[str]]:
        """Map each pod of Typha to the Windows node on which it runs. ``not on Windows`` includes a
        pod that is bound to a Windows node but is not ready.

        Raise NotAboutThisCluster if there is no Typha.
        """
        found = {}
        for pod in filter(lambda pod: _is(pod, TYPHA), self._pods()):
            node = pod["spec"].get("nodeName") or "(none)"
            runs = self._systems.get(node) == "windows" and is_ready(pod)
            found[_name(pod)] = Fact(
                f"on {node}" if runs else ELSEWHERE,
                f".spec.nodeName {node}, Ready condition",
            )
        if not found:
            raise NotAboutThisCluster("it is about clusters with Typha; here: no Typha pod")
        return found

    def workers(self) -> dict[str, Fact[int]]:
        """Return the number of Linux workers that take new pods."""
        names = [
            node.name for node in self._facts.by_os("linux") if node.worker and node.schedulable
        ]
        return {
            "schedulable Linux workers": Fact(len(names), f"nodes {', '.join(names) or '(none)'}")
        }

    def calico_nodes(self) -> dict[str, Fact[int]]:
        """Return the number of Linux workers with a ready calico-node."""
        workers = {node.name for node in self._facts.by_os("linux") if node.worker}
        ready = self._ready(lambda pod: pod["metadata"]["name"].startswith("calico-node-"), workers)
        source = f"ready calico-node pods on {', '.join(ready) or 'none'}; Linux workers: {', '.join(workers) or 'none'}"
        return {"Linux workers with a ready calico-node": Fact(len(ready), source)}

    def deployments(self) -> dict[str, Fact[int]]:
        """Return the number of ready pods on Linux nodes: of kube-controllers, and of Typha and the
        API server if they are installed.

        Every installation has kube-controllers. Control-plane nodes count: Calico's components
        tolerate their taint, and pods that started before the first worker joined stay there.
        """
        there = {CONTROLLERS: ""} | {
            obj["metadata"]["name"]: f"Deployment {space}/{obj['metadata']['name']}"
            for space in NAMESPACES[:3]
            for obj in self._listed("apps/v1", "Deployment", space)
            if obj["metadata"]["name"] in (TYPHA, CONTROLLERS, API_SERVER)
        }
        linux = {node.name for node in self._facts.by_os("linux")}
        found = {}
        for name, workload in sorted(there.items()):
            ready = self._ready(lambda pod, name=name: _is(pod, name), linux)  # type: ignore[misc]
            source = f"{workload or f'no Deployment {name}'}; ready pods on {', '.join(ready) or 'no Linux node'}"
            found[f"ready pods of {name} on Linux nodes"] = Fact(len(ready), source)
        return found

    def typha_pods(self) -> dict[str, Fact[str]]:
        """Return ``all ready, each on its own node`` if all desired pods of Typha are ready on
        different nodes, else their count and nodes."""
        found = {}
        for obj in self._listed("apps/v1", "Deployment", "calico-system"):
            if obj["metadata"]["name"] == TYPHA:
                wanted = int(obj["spec"].get("replicas", 1))
                nodes = self._ready(lambda pod: _is(pod, TYPHA), set(self._systems))
                right = len(nodes) == len(set(nodes)) == wanted
                text = f"{len(nodes)} of {wanted} ready, on {', '.join(nodes) or 'no node'}"
                found["pods of Typha"] = Fact(
                    "all ready, each on its own node" if right else text, text
                )
        return found

    def _ready(self, wanted: Callable[[Obj], bool], nodes: set[str]) -> list[str]:
        """Return the names of the given nodes, once for each ready pod there that is ``wanted``."""
        pods = [pod for pod in filter(wanted, self._pods()) if pod["spec"].get("nodeName") in nodes]
        return sorted(pod["spec"]["nodeName"] for pod in pods if is_ready(pod))

    def _pods(self) -> Iterable[Obj]:
        for space in NAMESPACES:
            yield from self._listed("v1", "Pod", space)

    def _listed(self, api: str, kind: str, space: str) -> list[Obj]:
        return required(
            f"{kind}s of {space}",
            "list them",
            functools.partial(self._kube.objects, api, kind, space),
        )


def _name(pod: Obj) -> str:
    return f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _whole(pod: Obj) -> bool:
    labels = mapping_at(pod, "metadata", "labels")
    return any(labels.get(key) in values for key, values in LABELS.items()) or owner(pod) in OWNERS


def _is(pod: Obj, name: str) -> bool:
    return owner(pod) == name or value_at(pod, "metadata", "labels", "k8s-app") == name
