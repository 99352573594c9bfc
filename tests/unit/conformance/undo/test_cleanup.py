# SPDX-License-Identifier: Apache-2.0
"""Objects that killed processes left on a cluster are removed at the end of their run, and no
others."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from conformance.journal.store import journals
from conformance.kube.discovery import Resource
from conformance.kube.prepared import objects_of
from conformance.kube.refused import ApiRefused
from conformance.undo.cleanup import clean_up, cluster_scoped

POLICY, NAMESPACE, TIER = "GlobalNetworkPolicy", "Namespace", "Tier"
STORED = "crd.projectcalico.org/v1"


def stored(name: str, run: str) -> dict[str, Any]:
    """A policy as calicoctl stores it: what its user called it and labelled it with is in an annotation."""
    labels = {
        "calico-conformance/run": run,
        "app.kubernetes.io/managed-by": "calico-windows-conformance",
    }
    given = json.dumps(
        {"name": name, "labels": labels, "creationTimestamp": "2026-03-01T12:00:00Z"}
    )
    meta = {"name": f"default.{name}", "annotations": {"projectcalico.org/metadata": given}}
    return {"apiVersion": STORED, "kind": POLICY, "metadata": meta}


class StandInKube:
    """Objects of a run by kind; what is deleted is gone, but for what is stuck."""

    def __init__(self, *, served: bool = True, forbidden: bool = False, **found: list[str]) -> None:
        self.found, self.served, self.forbidden = found, served, forbidden
        self.stored: list[dict[str, Any]] = []
        """Policies where Calico stores them."""
        self.locked = False
        self.discovery = self
        self.access = SimpleNamespace(namespace="")
        self.asked: list[str] = []
        self.deleted: list[str] = []
        self.waited_for: set[str] = set()
        """Kinds of which something was seen to be gone; until then a namespace holds policies."""

    def serves(self, api_version: str, kind: str) -> bool:
        return kind == NAMESPACE or (bool(self.stored) if api_version == STORED else self.served)

    def objects(self, api_version: str, kind: str, *, labels: str = "") -> list[dict[str, Any]]:
        if self.forbidden:
            raise ApiRefused(403, "Forbidden", "may not list", f"GET {kind}")
        if api_version == STORED:
            kept = [item for item in self.stored if item["metadata"]["name"] not in self.deleted]
            return [item for item in kept if item["kind"] == kind]
        self.asked.append(labels)
        return [
            self._object(kind, name)
            for name in self.found.get(kind, ())
            if name not in self.deleted
        ]

    def objects_at(
        self, api_version: str, kind: str, namespace: str | None, **more: str
    ) -> tuple[list[Any], str]:
        self.waited_for.add(kind)
        return [], "1"

    def find(
        self, api_version: str, kind: str, name: str, namespace: str | None = None
    ) -> dict[str, Any]:
        return next(
            (item for item in self.stored if item["metadata"]["name"] == name),
            self._object(kind, name),
        )

    def resource(self, api_version: str, kind: str) -> Resource:
        return Resource("/api/v1", kind.lower(), kind, namespaced=False, verbs=())

    def path(
        self, resource: Resource, namespace: str | None = None, name: str | None = None
    ) -> str:
        return f"{resource.kind}/{name}"

    def request(self, method: str, path: str, **more: Any) -> Any:
        assert method == "DELETE"
        if self.locked:
            raise ApiRefused(403, "Forbidden", "may not delete", f"DELETE {path}")
        kind, _, name = path.partition("/")
        if kind == TIER and self.found.get(NAMESPACE) and NAMESPACE not in self.waited_for:
            raise ApiRefused(
                500, "InternalError", "Cannot delete a non-empty tier", f"DELETE {path}"
            )
        self.deleted.append(name)
        return {}

    @staticmethod
    def _object(kind: str, name: str) -> dict[str, Any]:
        labels = {
            "calico-conformance/run": "abc",
            "app.kubernetes.io/managed-by": "calico-windows-conformance",
        }
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels}}


def test_what_was_left_is_removed_and_named_policies_first() -> None:
    kube = StandInKube(
        Namespace=["calico-demo-abc-gw0"], GlobalNetworkPolicy=["calico-demo-abc-deny"]
    )
    told = clean_up(kube, "abc", within=1.0)  # type: ignore[arg-type]
    assert kube.deleted == ["calico-demo-abc-deny", "calico-demo-abc-gw0"]
    assert len(told) == 2
    assert all("was left by a process that ended early, and is removed" in line for line in told)


def test_a_tier_is_removed_once_the_namespaces_with_its_policies_are_gone() -> None:
    kube = StandInKube(Namespace=["calico-demo-abc-gw0"], Tier=["calico-demo-abc-gw0-first"])
    told = clean_up(kube, "abc", within=1.0)  # type: ignore[arg-type]
    assert kube.deleted == ["calico-demo-abc-gw0", "calico-demo-abc-gw0-first"]
    assert all(line.endswith("is removed") for line in told)


def test_only_this_runs_labels_are_asked_for() -> None:
    kube = StandInKube(served=False)
    assert clean_up(kube, "abc", within=1.0) == []  # type: ignore[arg-type]
    assert set(kube.asked) == {"calico-conformance/run=abc"}


class Deaf(StandInKube):
    """An API server that ignores selectors: objects of other owners are among its answers."""

    def objects(
        self, api_version: str, kind: str, namespace: str | None = None, **selected: str
    ) -> list[dict[str, Any]]:
        found = super().objects(api_version, kind, labels=selected.get("labels", ""))
        bare: dict[str, Any] = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "theirs"}}
        other = {**bare, "metadata": {"name": "web", "labels": {"app": "web"}}}
        return [bare, *found, other]


def test_objects_without_the_label_are_of_no_run_where_selectors_are_ignored() -> None:
    kube: Any = Deaf(Namespace=["calico-demo-abc-gw0"], served=False)
    names = [item["metadata"]["name"] for item in cluster_scoped(kube)]
    assert names == ["calico-demo-abc-gw0"]
    assert list(cluster_scoped(kube, run="abcd")) == []
    assert list(objects_of(kube, ["team-a-gw0"], kinds=[("v1", "Namespace")])) != []
    assert list(objects_of(kube, ["team-a-gw0"], "abcd", kinds=[("v1", "Namespace")])) == []
    assert journals(kube) == []
    assert clean_up(kube, "abc", within=1.0)[0].endswith("is removed")
    assert kube.deleted == ["calico-demo-abc-gw0"]


def test_what_may_not_be_listed_is_said() -> None:
    told = clean_up(StandInKube(forbidden=True), "abc", within=1.0)  # type: ignore[arg-type]
    assert len(told) == 1
    assert told[0].startswith("it is not known whether objects of this run are left: ")


def test_a_policy_that_calicoctl_wrote_is_removed_where_calico_stores_it() -> None:
    kube = StandInKube(served=False)
    kube.stored = [
        stored("calico-demo-abc-gw0-nobody-enters", "abc"),
        stored("calico-demo-abcd-gw0-x", "abcd"),
    ]
    told = clean_up(kube, "abc", within=1.0)  # type: ignore[arg-type]
    assert kube.deleted == ["default.calico-demo-abc-gw0-nobody-enters"]
    assert len(told) == 1
    assert told[0].endswith("is removed")


def test_one_that_may_not_be_removed_there_is_named_with_what_removes_it() -> None:
    kube = StandInKube(served=False)
    kube.stored, kube.locked = [stored("calico-demo-abc-gw0-nobody-enters", "abc")], True
    (line,) = clean_up(kube, "abc", within=1.0)  # type: ignore[arg-type]
    assert "could not be removed" in line
    assert line.endswith("; calicoctl delete globalnetworkpolicy calico-demo-abc-gw0-nobody-enters")
