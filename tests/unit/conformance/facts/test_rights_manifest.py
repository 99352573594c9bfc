"""manifests/rbac: each role grants all that is asked for before its tests run, and is part of the next one."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import yaml

from conformance.facts.rights import DEPLOYING, DISRUPTING, NEEDS, POLICIES, RBAC_ROLES, READING
from conformance.kube.rights import Right
from conformance.pods.roles import MANIFESTS

STEPS = ("read-only", "standard", "disruptive")
WANTED = {
    "read-only": READING,
    "standard": (*READING, *DEPLOYING, *POLICIES),
    "disruptive": (*READING, *DEPLOYING, *POLICIES, *DISRUPTING),
}


@cache
def rules(role: str) -> list[dict[str, Any]]:
    manifest = yaml.safe_load((MANIFESTS / "rbac" / f"{role}.yaml").read_text())
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("ClusterRole", f"calico-conformance-{role}")
    found: list[dict[str, Any]] = manifest["rules"]
    return found


def granted(role: str, right: Right) -> bool:
    return any(
        right.group in rule["apiGroups"]
        and (right.resource in rule["resources"] or "*" in rule["resources"])
        and right.verb in rule["verbs"]
        for rule in rules(role)
    )


@pytest.mark.parametrize("role", STEPS)
def test_a_role_grants_what_is_asked_for(role: str) -> None:
    assert [right.label for right in WANTED[role] if not granted(role, right)] == []


@pytest.mark.parametrize(("role", "greater"), [STEPS[:2], STEPS[1:]])
def test_a_role_is_part_of_the_next_and_not_the_other_way_round(role: str, greater: str) -> None:
    assert all(rule in rules(greater) for rule in rules(role))
    assert [right.label for right in WANTED[greater] if not granted(role, right)] != []


def test_secrets_are_granted_to_nobody() -> None:
    for role in STEPS:
        assert not granted(role, Right("get", "secrets"))
        assert not any("*" in rule["resources"] and "" in rule["apiGroups"] for rule in rules(role))


def test_pull_secrets_are_read_in_one_namespace_and_written_anywhere() -> None:
    anywhere, default = yaml.safe_load_all((MANIFESTS / "rbac" / "pull-secrets.yaml").read_text())
    assert (anywhere["kind"], anywhere["rules"][0]["verbs"]) == ("ClusterRole", ["create", "patch"])
    assert (default["kind"], default["metadata"]["namespace"], default["rules"][0]["verbs"]) == (
        "Role", "default", ["get"],
    )  # fmt: skip


def test_every_need_has_a_role_that_grants_it() -> None:
    for need, rights in NEEDS.items():
        assert all(granted(RBAC_ROLES[need], right) for right in rights)


def test_the_runner_has_the_standard_role() -> None:
    documents = list(yaml.safe_load_all((MANIFESTS / "rbac" / "runner.yaml").read_text()))
    (binding,) = [document for document in documents if document["kind"] == "ClusterRoleBinding"]
    assert binding["roleRef"]["name"] == "calico-conformance-standard"
