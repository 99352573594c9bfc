# SPDX-License-Identifier: Apache-2.0
"""manifests/rbac: each role grants everything that its tests request, and is part of the next
larger role."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.facts.rights import (
    CALICOCTL,
    DEPLOYING,
    DISRUPTING,
    NEEDS,
    OF_CLUSTER,
    POLICIES,
    RBAC_ROLES,
    READING,
    lacking,
)
from conformance.journal.lease import LOCK_RIGHTS
from conformance.kube.ownership import SYSTEM_NAMESPACE
from conformance.kube.rights import Right
from conformance.pods.roles import MANIFESTS
from tests.unit.conformance.undo.test_rights import Kube

STEPS = ("read-only", "standard", "disruptive")
WANTED = {
    "read-only": READING,
    "standard": (*READING, *DEPLOYING, *POLICIES),
    "disruptive": (*READING, *DEPLOYING, *POLICIES, *DISRUPTING),
}


@cache
def rules(role: str, namespace: str = "") -> list[dict[str, Any]]:
    """What a role grants everywhere, or in a namespace alone."""
    documents = yaml.safe_load_all((MANIFESTS / "rbac" / f"{role}.yaml").read_text())
    named = {(one["kind"], one["metadata"].get("namespace", "")): one for one in documents}
    found = named.get(
        ("Role", namespace) if namespace else ("ClusterRole", ""), {"metadata": {}, "rules": []}
    )
    assert (
        found["metadata"].get("name", f"calico-conformance-{role}") == f"calico-conformance-{role}"
    )
    granting: list[dict[str, Any]] = found["rules"]
    return granting


def granted(role: str, right: Right) -> bool:
    return any(
        right.group in rule["apiGroups"]
        and (right.resource in rule["resources"] or "*" in rule["resources"])
        and right.verb in rule["verbs"]
        for rule in [*rules(role), *(rules(role, right.namespace) if right.namespace else [])]
    )


@pytest.mark.parametrize("role", STEPS)
def test_a_role_grants_what_is_asked_for(role: str) -> None:
    assert [right.label for right in WANTED[role] if not granted(role, right)] == []


@pytest.mark.parametrize(("role", "greater"), [STEPS[:2], STEPS[1:]])
def test_a_role_is_part_of_the_next_and_not_the_other_way_round(role: str, greater: str) -> None:
    assert all(rule in rules(greater) for rule in rules(role))
    assert [right.label for right in WANTED[greater] if not granted(role, right)] != []


@pytest.mark.parametrize("role", STEPS)
def test_leases_are_written_in_the_suites_own_namespace_alone(role: str) -> None:
    writing = [
        right
        for right in (*LOCK_RIGHTS, *DISRUPTING)
        if right.resource == "leases" and right.verb != "get"
    ]
    assert {right.namespace for right in writing} == {SYSTEM_NAMESPACE}
    assert [
        right.label for right in writing if granted(role, replace(right, namespace="kube-system"))
    ] == []
    assert not granted(role, Right("delete", "configmaps"))
    assert all(granted(role, right) == (role == "disruptive") for right in writing)


@pytest.mark.parametrize(
    "path", sorted((MANIFESTS / "rbac").glob("*.yaml")), ids=lambda path: path.stem
)
def test_each_file_says_what_it_amounts_to(path: Path) -> None:
    head = path.read_text().partition("apiVersion")[0]
    assert "# In effect: " in head


def test_secrets_are_granted_to_nobody() -> None:
    for role in STEPS:
        assert not granted(role, Right("get", "secrets"))
        assert not any("*" in rule["resources"] and "" in rule["apiGroups"] for rule in rules(role))


def test_pull_secrets_are_read_in_one_namespace_and_only_created_elsewhere() -> None:
    anywhere, default = yaml.safe_load_all((MANIFESTS / "rbac" / "pull-secrets.yaml").read_text())
    assert (anywhere["kind"], anywhere["rules"][0]["verbs"]) == ("ClusterRole", ["create"])
    assert (default["kind"], default["metadata"]["namespace"], default["rules"][0]["verbs"]) == (
        "Role", "default", ["get"],
    )  # fmt: skip


def test_every_need_has_a_role_that_grants_it() -> None:
    for need, rights in {**NEEDS, **OF_CLUSTER}.items():
        assert all(granted(RBAC_ROLES[need], right) for right in rights)


@pytest.mark.parametrize("need", OF_CLUSTER)
def test_what_changes_the_whole_cluster_is_asked_where_the_run_may(need: str) -> None:
    (right, *_) = OF_CLUSTER[need]
    kube: Any = Kube((right.verb, right.resource))
    told = lacking(kube, whole_cluster=True)
    assert list(told) == [need]
    assert told[need][0].startswith(f"create {right.resource}.projectcalico.org in all namespaces")
    assert lacking(kube) == {}


def test_calicoctl_has_a_role_beside_the_others_which_do_not_grant_it() -> None:
    assert [right.label for right in CALICOCTL if not granted("calicoctl", right)] == []
    assert not any(granted(role, right) for role in STEPS for right in CALICOCTL)


@pytest.mark.parametrize(
    ("calicoctl", "v3", "asked"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_what_calicoctl_takes_is_asked_where_it_writes(
    *, calicoctl: bool, v3: bool, asked: bool
) -> None:
    denied = {(right.verb, right.resource) for right in CALICOCTL if right.verb == "create"}
    kube: Any = Kube(*denied, served=v3)
    kube.request = partial(refusing_crd, kube.request)
    told = lacking(kube, calicoctl=calicoctl).get("calicoctl", ())
    assert bool(told) == asked
    if asked:
        right = "create networkpolicies.crd.projectcalico.org in all namespaces"
        assert told[0] == f"{right} (needed to write Calico policies with calicoctl)"


def refusing_crd(request: Any, method: str, path: str, *, body: Any, repeat: bool) -> Any:
    """Everything of other groups than Calico's storage is allowed."""
    if body["spec"]["resourceAttributes"]["group"] != "crd.projectcalico.org":
        return {"status": {"allowed": True}}
    return request(method, path, body=body, repeat=repeat)


def test_rancher_has_a_role_for_the_verb_that_its_webhook_asks_for() -> None:
    (rule,) = rules("rancher")
    assert rule == {
        "apiGroups": ["management.cattle.io"],
        "resources": ["projects"],
        "verbs": ["updatepsa"],
    }


def test_the_runner_has_the_standard_role() -> None:
    documents = list(yaml.safe_load_all((MANIFESTS / "rbac" / "runner.yaml").read_text()))
    (binding,) = [document for document in documents if document["kind"] == "ClusterRoleBinding"]
    assert binding["roleRef"]["name"] == "calico-conformance-standard"
