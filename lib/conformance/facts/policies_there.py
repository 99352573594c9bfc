"""Policies that may be in force at some pods: those that exist, and those of this run that went only a moment ago.

Kubernetes' are chosen as the API server reads their selectors.  Of Calico's, whose selectors only Calico reads, all are
named that can select a pod of the namespace.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.errors import SuiteError
from conformance.kube.changes import reference
from conformance.kube.client import Kube, Obj
from conformance.model.endpoint import Workload

KUBERNETES = "networking.k8s.io/v1"
CALICO = ("projectcalico.org/v3", "crd.projectcalico.org/v1")
"""The first that is served is read."""
RECENTLY = 120.0
"""s.  For how long a policy that is gone may still be blamed: Felix may be late, but not that late."""
OPERATORS = {"In": "in", "NotIn": "notin"}


@dataclass
class PoliciesThere:
    """Names policies on one cluster."""

    kube: Kube
    gone: dict[str, float] = field(default_factory=dict)
    """Policies that this worker has removed, by name, each with when (``time.monotonic``)."""

    def went(self, label: str) -> None:
        """This worker has removed a policy."""
        self.gone[label] = time.monotonic()

    def __call__(self, pods: Sequence[Workload]) -> list[str]:
        """``NetworkPolicy demo/deny (networking.k8s.io/v1)``; what cannot be read is left out."""
        spaces = {pod.namespace: {other.pod for other in pods if other.namespace == pod.namespace} for pod in pods}
        found = [label for space, names in spaces.items() for label in self._kubernetes(space, names)]
        found += self._calico(list(spaces))
        return [*dict.fromkeys(found), *self._recently()]

    def _kubernetes(self, space: str, pods: set[str]) -> Iterator[str]:
        for policy in self._listed(KUBERNETES, "NetworkPolicy", space):
            selector = label_selector((policy.get("spec") or {}).get("podSelector") or {})
            try:
                chosen = {pod["metadata"]["name"] for pod in self.kube.objects("v1", "Pod", space, labels=selector)}
            except SuiteError:
                continue
            if chosen & pods:
                yield reference(policy, space).label

    def _calico(self, spaces: Sequence[str]) -> Iterator[str]:
        served = next((api for api in CALICO if self.kube.discovery.serves(api, "GlobalNetworkPolicy")), None)
        if served is None:
            return
        for space in spaces:
            for policy in self._listed(served, "NetworkPolicy", space):
                # Calico's API serves Kubernetes' policies a second time
                if not policy["metadata"]["name"].startswith("knp."):
                    yield reference(policy, space).label
        for policy in self._listed(served, "GlobalNetworkPolicy", None):
            yield reference(policy, None).label

    def _listed(self, api: str, kind: str, space: str | None) -> list[Obj]:
        try:
            objects = self.kube.objects(api, kind, space)
        except SuiteError:
            return []
        return [{"apiVersion": api, "kind": kind, **policy} for policy in objects]

    def _recently(self) -> Iterator[str]:
        now = time.monotonic()
        for label, when in self.gone.items():
            if now - when <= RECENTLY:
                yield f"{label}, deleted {now - when:.0f} s ago"


def label_selector(selector: Mapping[str, object]) -> str:
    """A policy's podSelector as a list's parameter; empty: every pod."""
    labels = selector.get("matchLabels") or {}
    assert isinstance(labels, Mapping)
    terms = [f"{key}={value}" for key, value in labels.items()]
    rules = selector.get("matchExpressions") or []
    assert isinstance(rules, list)
    for rule in rules:
        if rule["operator"] in OPERATORS:
            terms.append(f"{rule['key']} {OPERATORS[rule['operator']]} ({','.join(rule['values'])})")
        else:
            terms.append(rule["key"] if rule["operator"] == "Exists" else f"!{rule['key']}")
    return ",".join(terms)
