# SPDX-License-Identifier: Apache-2.0
"""Every policy of the suites can be filled in, stays inside the run, and means the same in both
of its forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.kube import guard, manifest
from conformance.kube.changes import reference
from conformance.kube.ownership import Ownership
from conformance.model.change import Change
from conformance.policy import placeholders
from hybridlab.api.kinds.pod_security import violations
from tests.unit.conformance.builders import a_workload

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
POLICIES = sorted((MANIFESTS / "policy").rglob("*.yaml"))
RUN = Ownership("abc", "gw0")


def pod_spec(obj: dict[str, Any]) -> dict[str, Any]:
    """The spec of a pod, or of a workload's pods; empty: it is neither."""
    spec: dict[str, Any] = obj.get("spec") or {}
    return spec if obj["kind"] == "Pod" else (spec.get("template") or {}).get("spec") or {}


def filled(path: Path) -> list[dict[str, Any]]:
    names = ("server", "client", "friend", "other_friend", "foe", "bystander", "stranger")
    pods = {name: a_workload(name) for name in names}
    apps = {"guest": "linux-client", "new_pod": "linux-new-pod", "home": "ns", "system": "linux"}
    apps |= {"action": "Allow", "protocol": "TCP", "service": "cluster-ip-linux-server"}
    apps |= {
        "port": "8080",
        "entry": "8083",
        "pods": "app == 'linux-client'",
        "namespaces": "projectcalico.org/name == 'ns'",
    }
    apps |= dict.fromkeys(("first", "second", "third"), "198.18.0.1")
    apps |= {"rule": "all()", "selector": "app == 'windows-server'", "seat": "windows-server"}
    apps |= {"highest": "8080", "end": "Deny"}
    apps |= {"wide": "192.0.2.0/24", "low": "192.0.2.0/25", "high": "192.0.2.128/25"}
    apps |= {"direction": "Ingress", "order": "100", "selected": "app == 'linux-server'"}
    known = placeholders.values(namespace=RUN.namespace, run=RUN.run, **pods, **apps)
    # of pods in one manifest, a selector or a label in another
    known |= {"selected.role": "windows-server", "guest.role": "linux-client"}
    return placeholders.fill(manifest.load(path), known, where=path.name)


def ids(path: Path) -> str:
    return str(path.relative_to(MANIFESTS / "policy"))


@pytest.mark.parametrize("path", POLICIES, ids=ids)
def test_a_policy_stays_inside_the_run(path: Path) -> None:
    for obj in filled(path):
        namespace = (
            None
            if obj["kind"] == "Tier" or "Global" in obj["kind"] or "Cluster" in obj["kind"]
            else RUN.namespace
        )
        guard.check(
            Change(verb="apply", target=reference(obj, namespace), why="test", body=obj), RUN
        )


@pytest.mark.parametrize("path", POLICIES, ids=ids)
def test_a_policy_is_used_by_a_test(path: Path) -> None:
    suites = "\n".join(item.read_text() for item in (ROOT / "suites").rglob("*.py"))
    if user := {"watch": "watch/standing_watch", "beside": "enforcement/policy"}.get(
        path.parent.name
    ):
        assert f'"{path.stem}"' in (ROOT / f"lib/conformance/{user}.py").read_text()
        return
    name = str(path.relative_to(MANIFESTS))
    assert name in suites or f'either_policy_api("{path.stem}")' in suites


@pytest.mark.parametrize(
    "path", sorted((MANIFESTS / "policy" / "kubernetes").glob("*.yaml")), ids=ids
)
def test_both_forms_of_a_policy_ask_for_the_same_pods(path: Path) -> None:
    twin = MANIFESTS / "policy" / "calico" / path.name
    for ours, theirs in zip(manifest.load(path), manifest.load(twin), strict=True):
        assert ours["metadata"]["name"] == theirs["metadata"]["name"]
        assert ours["spec"].get("policyTypes") == theirs["spec"].get("types")
        asked = ours["spec"]["podSelector"]
        terms = [f"app == '{role}'" for role in asked.get("matchLabels", {}).values()]
        for one in asked.get("matchExpressions", ()):
            assert one["operator"] == "In"
            values = ", ".join(f"'{value}'" for value in one["values"])
            terms.append(f"{one['key']} in {{{values}}}")
        assert theirs["spec"]["selector"] == (" && ".join(terms) or "all()")
    assert path.read_text().splitlines()[0] == twin.read_text().splitlines()[0]


def test_the_demos_policy_asks_for_the_same_pods_as_its_kubernetes_form() -> None:
    demo = MANIFESTS / "policy" / "demo"
    (theirs,), (ours,) = (
        manifest.load(demo / f"allow-linux-client{form}.yaml") for form in ("", ".kubernetes")
    )
    assert theirs["spec"]["selector"] == "app == 'windows-server'"
    assert ours["spec"]["podSelector"] == {"matchLabels": {"app": "windows-server"}}
    assert theirs["spec"]["ingress"][0]["source"] == {"selector": "app == 'linux-client'"}
    assert ours["spec"]["ingress"][0]["from"] == [
        {"podSelector": {"matchLabels": {"app": "linux-client"}}}
    ]
    assert ours["spec"]["policyTypes"] == theirs["spec"]["types"] == ["Ingress"]


def test_a_global_policy_without_its_limit_would_be_refused() -> None:
    (obj,) = filled(MANIFESTS / "policy" / "calico" / "global_deny.yaml")
    obj["spec"]["namespaceSelector"] = "all()"
    with pytest.raises(guard.GuardRefused):
        guard.check(Change(verb="apply", target=reference(obj), why="test", body=obj), RUN)


LINUX = [
    (path, obj)
    for path in sorted(MANIFESTS.rglob("*.yaml"))
    if "policy" not in path.parts and "rbac" not in path.parts
    for obj in manifest.load(path)
    if (pod_spec(obj).get("os") or {}).get("name") == "linux"
]
NOT_RESTRICTED = {"linux-server": ["server"], "linux-node": ["agent"]}
"""Pods that cannot meet the standard restricted, with the containers that do not."""


def test_the_suite_has_these_linux_pods() -> None:
    """A new manifest belongs in this list, and below `restricted`."""
    assert {obj["metadata"]["name"] for _, obj in LINUX} == {
        "linux-client", "linux-server", "linux-seat", "linux-member", "linux-new-pod", "linux-node",
        "prepull-linux",
    }  # fmt: skip


@pytest.mark.parametrize("obj", [obj for _, obj in LINUX], ids=lambda obj: obj["metadata"]["name"])
def test_a_linux_pod_meets_the_standard_restricted(obj: dict[str, Any]) -> None:
    """By the lab's reading of the standard, held by a real API server's (tests/contract)."""
    name = obj["metadata"]["name"]
    spec = pod_spec(obj)
    excused = NOT_RESTRICTED.get(name, [])
    own = [one for one in spec["containers"] if one["name"] not in excused]
    if name != "linux-node":
        assert violations("baseline", spec) == []
        assert violations("restricted", {**spec, "containers": own}) == []
    for one in own:
        context = {**(spec.get("securityContext") or {}), **one["securityContext"]}
        assert context["runAsUser"] == context["runAsGroup"] == 10001
    assert bool(excused) == bool(violations("restricted", spec))


@pytest.mark.parametrize("obj", [obj for _, obj in LINUX], ids=lambda obj: obj["metadata"]["name"])
def test_a_pod_that_pings_or_listens_below_1024_has_the_sysctls(obj: dict[str, Any]) -> None:
    spec = pod_spec(obj)
    given = {
        one["name"]: one["value"] for one in (spec.get("securityContext") or {}).get("sysctls", ())
    }
    wanted = {} if obj["metadata"]["name"] in ("linux-node", "prepull-linux") else {
        "net.ipv4.ip_unprivileged_port_start": "0", "net.ipv4.ping_group_range": "0 2147483647",
    }  # fmt: skip
    assert given == wanted
