# SPDX-License-Identifier: Apache-2.0
"""A small cluster in memory whose DaemonSets bring pods back, for disruptions to act on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.disrupt.patience import Patience
from conformance.kube.guard import merged
from conformance.kube.ownership import Ownership
from conformance.kube.refused import ApiRefused
from conformance.model.change import Change, ObjectRef
from tests.unit.conformance.builders import Obj, a_pod
from tests.unit.conformance.expect.stand_ins import Clock

V3 = "projectcalico.org/v3"
PATIENCE = Patience(
    felix_restart=20.0,
    drain=30.0,
    vni_delivery=40.0,
    evict_again=5.0,
    pod_ready=15.0,
    poll_every=1.0,
)


@dataclass
class Cluster:
    """Stands in for both Kube and Changes; it records every change as text."""

    pods: list[Obj] = field(default_factory=list)
    others: dict[tuple[str, str], Obj] = field(default_factory=dict)
    """Map (kind, name) to the object."""
    log: list[str] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)
    """Procedures that have not been closed yet."""
    refuse: dict[str, list[ApiRefused]] = field(default_factory=dict)
    """Map each pod to the refusals of its evictions, in order."""
    stubborn: set[str] = field(default_factory=set)
    """Names of pods that stay although they were evicted or deleted."""
    brought_back: Callable[[Obj, int], Obj | None] = lambda old, number: {
        **old, "metadata": {**old["metadata"], "name": f"{old['metadata']['name']}-{number}", "uid": f"new-{number}"},
    }  # fmt: skip
    """Returns the pod that a DaemonSet makes in place of its deleted pod."""
    returns: int = 0
    """The number of evicted pods that get a successor on the same node at once."""
    evictions: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of the requested evictions."""
    served: bool = True
    run: Ownership = field(default_factory=lambda: Ownership("r1"))
    dry_run: bool = False
    _numbers: Any = field(default_factory=lambda: itertools.count(2))

    @property
    def kube(self) -> Cluster:
        return self

    @property
    def access(self) -> Any:
        return SimpleNamespace(namespace="")

    @property
    def discovery(self) -> Any:
        return SimpleNamespace(serves=lambda api, kind: self.served)

    def objects(
        self,
        api: str,
        kind: str,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
    ) -> list[Obj]:
        if kind != "Pod":
            return [one for (known, _), one in self.others.items() if known == kind]
        name, _, value = labels.partition("=")
        return [
            item
            for item in self.pods
            if namespace in (None, item["metadata"]["namespace"])
            and (not labels or item["metadata"]["labels"].get(name) == value)
            and (not fields or item["spec"]["nodeName"] == fields.partition("=")[2])
        ]

    def find(self, api: str, kind: str, name: str, namespace: str | None = None) -> Obj | None:
        if kind == "Pod":
            return next((item for item in self.pods if item["metadata"]["name"] == name), None)
        return self.others.get((kind, name))

    def make(self, change: Change) -> None:
        waiting = self.refuse.get(change.target.name)
        self.log.append(f"{change.verb} {change.target.name}")
        self.evictions.append(dict(change.body or {}))
        if waiting:
            raise waiting.pop(0)
        old = self.find("v1", "Pod", change.target.name)
        self._end(change.target.name)
        if self.returns and old is not None:
            self.returns -= 1
            meta = old["metadata"]
            number = next(self._numbers)
            name = f"{meta['name'].partition('+')[0]}+{number}"
            self.pods.append({**old, "metadata": {**meta, "name": name, "uid": f"new-{number}"}})

    def eviction_refusal(self, target: ObjectRef) -> str:
        waiting = self.refuse.get(target.name)
        return waiting[0].explained if waiting else ""

    def patch(
        self, target: ObjectRef, merge_patch: Mapping[str, Any], why: str, *, foreign: bool = True
    ) -> None:
        self.log.append(f"patch {target.kind} {target.name} {dict(merge_patch)}")
        if target.kind == "Node":
            self.others["Node", target.name] = merged(self.others["Node", target.name], merge_patch)

    def delete(self, target: ObjectRef, why: str, *, foreign: bool = True) -> None:
        self.log.append(f"delete {target.name}")
        self._end(target.name)

    delete_owned_pod = delete

    def procedure(self, name: str, arguments: Mapping[str, Any], why: str) -> str:
        self.noted.append(f"{name} {dict(arguments)}")
        return self.noted[-1]

    def close(self, entry: str) -> None:
        self.noted.remove(entry)

    def _end(self, name: str) -> None:
        if name in self.stubborn:
            return
        for item in [each for each in self.pods if each["metadata"]["name"] == name]:
            self.pods.remove(item)
            if item["metadata"].get("ownerReferences", [{}])[0].get("kind") == "DaemonSet":
                made = self.brought_back(item, next(self._numbers))
                self.pods += [made] if made else []


@pytest.fixture
def cluster() -> Cluster:
    """Return a Windows node with a Felix, pods of a Deployment, and a pod that no drain touches,
    and a Linux node with a Felix."""
    felix = {"k8s-app": "calico-node-windows"}
    return Cluster(
        pods=[
            a_pod("felix-w", "w1", owner="DaemonSet", namespace="calico-system", labels=felix),
            a_pod(
                "felix-l",
                "l1",
                owner="DaemonSet",
                namespace="calico-system",
                labels={"k8s-app": "calico-node"},
            ),
            a_pod("web", "w1"),
            a_pod("web-2", "w1"),
            a_pod("elsewhere", "w2"),
            a_pod("over", "w1", owner="Job", status={"phase": "Succeeded"}),
        ],
        others={("Node", "w1"): {"metadata": {"name": "w1"}, "spec": {}}},
    )


@pytest.fixture
def clock() -> Clock:
    """Return a clock that advances only when code sleeps."""
    return Clock()


@pytest.fixture
def patience() -> Patience:
    """Return time limits that are long enough for the clock."""
    return PATIENCE
