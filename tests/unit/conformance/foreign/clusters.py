# SPDX-License-Identifier: Apache-2.0
"""Clusters with policies of several owners."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from conformance.expect.owners import Times
from conformance.foreign.policies import ForeignPolicies
from conformance.kube.ownership import Ownership
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef
from tests.unit.conformance.builders import a_workload

KUBERNETES, V3, CRD = "networking.k8s.io/v1", "projectcalico.org/v3", "crd.projectcalico.org/v1"
SERVER, CLIENT = a_workload("server"), a_workload("client")
RUN = Ownership("ab12", "gw0")


class Cluster:
    """Lists of objects by API and kind; each pod has its name as the label ``app``."""

    def __init__(self, *served: str) -> None:
        self.served = {KUBERNETES, *served}
        self.lists: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.forbidden: set[str] = set()
        self.asked: list[str] = []
        self.version = ""
        self.events: list[tuple[int, str, dict[str, Any]]] = []

    @property
    def discovery(self) -> Cluster:
        return self

    def serves(self, api: str, kind: str) -> bool:
        return api in self.served

    def objects(
        self, api: str, kind: str, space: str = "", labels: str = ""
    ) -> list[dict[str, Any]]:
        self.asked.append(kind)
        if api in self.forbidden:
            raise ApiRefused(403, "Forbidden", "no right", "GET")
        return self.lists.get((api, kind), [])

    def objects_at(self, api: str, kind: str) -> tuple[list[dict[str, Any]], str]:
        return self.objects(api, kind), self.version

    def watch(self, api: str, kind: str, space: None, since: str, seconds: float) -> Any:
        return [event for version, of, event in self.events if of == kind and version > int(since)]

    def find(self, api: str, kind: str, name: str, space: str | None = None) -> dict[str, Any]:
        self.asked.append(kind)
        if kind in self.forbidden:
            raise ApiRefused(403, "Forbidden", "no right", "GET")
        return {"metadata": {"name": name, "namespace": space, "labels": {"app": name}}}


def known(cluster: Any, *uids: str) -> ForeignPolicies:
    changes: Any = SimpleNamespace(run=RUN, uids=set(uids), kept={})
    return ForeignPolicies(cluster, changes)


def excuse(there: ForeignPolicies, seen: Any = "closed", otherwise: float | None = None) -> str:
    return there.excuse(CLIENT, SERVER.tcp(8080), seen, times=Times(otherwise=otherwise))


def made(
    there: ForeignPolicies, kind: str, name: str, obj: dict[str, Any], space: str | None = "ns"
) -> None:
    """Record that the run made the object in this form."""
    api = V3 if "Policy" in kind else "v1"
    there.changes.kept[ObjectRef(api_version=api, kind=kind, name=name, namespace=space)] = obj
