# SPDX-License-Identifier: Apache-2.0
"""A small world for taps: real parts of a lab that do not run, and get their objects from the
test."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

from hybridlab.api.interference import Interference
from hybridlab.calico.acl_lists import AclLists
from hybridlab.calico.felix_faults import FelixFaults
from hybridlab.calico.felix_policy import NodePolicy
from hybridlab.calico.felix_windows_policy import WindowsNodePolicy
from hybridlab.calico.resources import CalicoResources
from hybridlab.calico.typha import Typha
from hybridlab.faults.gates import ZoneGate
from hybridlab.networks.registry import plane_of
from hybridlab.policy.policy import Policy, PolicyKey
from hybridlab.policy.release import Release
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import machines
from hybridlab.taps import Seam
from tests.detection.taps.seams import Put

cached_profile = cache(load)
OURS, OTHERS = "calico-demo-a", "calico-demo-b"
Obj = dict[str, Any]
KUBERNETES = "networkpolicies.networking.k8s.io"
CALICO = "networkpolicies.projectcalico.org"
GLOBAL = "globalnetworkpolicies.projectcalico.org"
TIERS = "tiers.projectcalico.org"
SETS = "networksets.projectcalico.org"
SLICES = "endpointslices.discovery.k8s.io"
RESOURCES = {"KubernetesNetworkPolicy": KUBERNETES, "NetworkPolicy": CALICO}


class World:
    """Typha, Felixes, gates and seams of a lab, with one tap, and two namespaces of a run."""

    def __init__(self, tap: Put | None, profile: str = "default") -> None:
        loaded = cached_profile(profile)
        self.plane = plane_of(loaded)
        release = Release("v3.31.2")
        self.typha = Typha(
            None,  # type: ignore[arg-type]  # nothing is followed
            CalicoResources(loaded),
            release,
            self.plane.node_end,
            lambda line: None,
        )
        self.graph = self.typha.graph
        self.followed = {one.resource: one for one in self.typha._policy_table()}
        nodes = {machine.name: machine for machine in machines(loaded)}
        self.felixes: dict[str, Any] = {}
        for name, machine in nodes.items():
            faults = FelixFaults(name, lambda *_: None)
            policy: Any = NodePolicy(name, self.graph, faults, lambda: None)
            if machine.os == "windows":
                policy = WindowsNodePolicy(
                    name, tuple, self.graph, release, AclLists("v3.31.2"), faults,
                    lambda: None, faults.log,
                )  # fmt: skip
            self.graph.subscribe(name, policy)
            self.felixes[name] = SimpleNamespace(
                faults=faults, queue=SimpleNamespace(policy=policy)
            )
        windows = [name for name, machine in nodes.items() if machine.os == "windows"]
        self.zone: list[Any] = []
        lab: Any = SimpleNamespace(
            calico=SimpleNamespace(
                typha=self.typha, felixes=self.felixes, nodes=nodes, windows=windows
            ),
            interference=Interference(),
            zone_gate=ZoneGate(SimpleNamespace(set_zone=self._set_zone)),
            host_answers=Seam(),
        )
        self.lab = lab
        if tap is not None:
            tap(lab)
        for namespace in (OURS, OTHERS):
            self.hear("namespaces", named(namespace, ""))

    async def _set_zone(self, zone: Any) -> None:
        self.zone.append(zone)

    def hear(self, resource: str, obj: Obj, *, gone: bool = False) -> None:
        """Add, change or remove an object."""
        followed = self.followed[resource]
        self.typha._update(followed, obj, None if gone else followed.convert(obj))

    def policy(self, obj: Obj, *, gone: bool = False) -> None:
        """Add, change or remove a policy of Kubernetes or Calico."""
        resource = {"GlobalNetworkPolicy": GLOBAL, "NetworkPolicy": CALICO}.get(
            obj["kind"], KUBERNETES
        )
        self.hear(resource, {**obj, "kind": obj["kind"].removeprefix("Kubernetes")}, gone=gone)

    def pod(self, name: str, node: str, **labels: str) -> str:
        """Add a pod of the run, or change its labels; return its uid."""
        pod = named(name, OURS, labels=labels)
        address = f"192.168.0.{sum(map(ord, name)) % 250}"
        self.hear("pods", {**pod, "spec": {"nodeName": node}, "status": {"podIP": address}})
        return str(pod["metadata"]["uid"])

    def keys(self, uid: str) -> list[str]:
        """Return the names of the policies that a pod's Felix applies to it."""
        felix = self.felixes[self.graph.pod(uid).node]
        return sorted(map(str, felix.faults.applying(self.graph.keys_for(uid), uid)))

    def read(self, name: str) -> list[Policy]:
        """Return the policies with this name that the graph has."""
        return [policy for key, policy in self.graph.policies.items() if key.name == name]

    def members(self, key: PolicyKey, node: str) -> list[str]:
        """Return the members of the sets of a policy on a node."""
        faults = self.felixes[node].faults
        names = self.graph.sets_of(key)
        return sorted({one for name in names for one in faults.members(self.graph, name)})


def named(name: str, namespace: str, **more: Any) -> Obj:
    """Return an object's head."""
    uid = f"{more.get('kind', '')}/{namespace}/{name}"
    meta: Obj = {"name": name, "uid": uid} | ({"namespace": namespace} if namespace else {})
    meta |= {"labels": more["labels"]} if "labels" in more else {}
    return {"kind": more.get("kind", ""), "metadata": meta}


def kubernetes(name: str, pods: Obj, ingress: list[Any], namespace: str = OURS) -> Obj:
    """Return a policy of Kubernetes."""
    spec = {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": ingress}
    head = named(name, namespace, kind="KubernetesNetworkPolicy")
    return {"kind": "KubernetesNetworkPolicy", "spec": spec, **head}


def calico(name: str, selector: str, *ingress: Obj, namespace: str = OURS, **spec: Any) -> Obj:
    """Return a policy of Calico, in a namespace or without one."""
    kind = "NetworkPolicy" if namespace else "GlobalNetworkPolicy"
    rules = [{"action": "Allow", **rule} for rule in ingress]
    spec = {"selector": selector, "types": ["Ingress"], "ingress": rules, **spec}
    return {"kind": kind, "spec": spec, **named(name, namespace, kind=kind)}
