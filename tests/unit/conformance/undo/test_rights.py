# SPDX-License-Identifier: Apache-2.0
"""Before anything is restored, the user's rights for these changes are checked; each missing
right is one line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from conformance.journal import Entry
from conformance.model.change import ObjectRef
from conformance.undo.rights import lacking_to_restore

FELIX = ObjectRef(api_version="projectcalico.org/v3", kind="FelixConfiguration", name="default")
NODE = ObjectRef(api_version="v1", kind="Node", name="w1")


class Kube:
    """Where the user may do everything but some (verb, resource)."""

    def __init__(self, *denied: tuple[str, str], served: bool = True) -> None:
        self.denied, self.access = denied, SimpleNamespace(user="user bob")
        self.discovery = SimpleNamespace(serves=lambda api, kind: served or api == "v1")

    def resource(self, api: str, kind: str) -> Any:
        return SimpleNamespace(plural=f"{kind.lower()}s")

    def request(self, method: str, path: str, *, body: Any, repeat: bool) -> Any:
        asked = body["spec"]["resourceAttributes"]
        sub = f"/{asked['subresource']}" if "subresource" in asked else ""
        allowed = (asked["verb"], f"{asked['resource']}{sub}") not in self.denied
        return {"status": {"allowed": allowed}}


def lacking(kube: Any, *entries: Entry) -> list[str]:
    return lacking_to_restore(kube, entries)


def patch(target: ObjectRef) -> Entry:
    return Entry(key="1", act="patch", why="a test", target=target)


def test_the_objects_that_were_changed_and_the_lock_are_asked_for() -> None:
    kube = Kube(("patch", "felixconfigurations"), ("update", "leases"))
    assert lacking(kube, patch(FELIX), patch(NODE)) == [
        "user bob may not update leases.coordination.k8s.io in calico-conformance-system, needed to keep runs from "
        "disrupting each other; bind the role of manifests/rbac/disruptive.yaml",
        "user bob may not patch felixconfigurations.projectcalico.org in all namespaces, needed to put back "
        "FelixConfiguration default; bind the role of manifests/rbac/disruptive.yaml",
    ]


def test_what_these_changes_do_not_take_is_not_asked_for() -> None:
    kube = Kube(("patch", "felixconfigurations"), ("create", "pods/eviction"))
    assert lacking(kube, patch(NODE)) == []


def test_a_procedure_takes_what_a_drain_takes() -> None:
    procedure = Entry(
        key="1", act="procedure", why="a test", procedure="hns-network", arguments={"node": "w1"}
    )
    (line,) = lacking(Kube(("create", "pods/eviction")), procedure)
    assert line.startswith(
        "user bob may not create pods/eviction in all namespaces, needed to drain a node"
    )


def test_a_right_that_is_needed_twice_is_named_once() -> None:
    procedure = Entry(
        key="1", act="procedure", why="a test", procedure="hns-network", arguments={"node": "w1"}
    )
    assert len(lacking(Kube(("create", "leases")), procedure, procedure)) == 1


def test_pods_that_show_that_all_is_well_are_asked_for() -> None:
    (line,) = lacking(Kube(("create", "deployments")), patch(NODE))
    assert "create deployments.apps" in line


def test_an_api_that_is_away_is_left_to_the_restore() -> None:
    assert lacking(Kube(("patch", "felixconfigurations"), served=False), patch(FELIX)) == []
