# SPDX-License-Identifier: Apache-2.0
"""Every policy of the suites can be filled in, stays inside the run, and says the same in both of its forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.kube import guard, manifest
from conformance.kube.changes import reference
from conformance.kube.ownership import Ownership
from conformance.model.change import Change
from conformance.policy import placeholders
from tests.unit.conformance.builders import a_workload

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
POLICIES = sorted((MANIFESTS / "policy").rglob("*.yaml"))
RUN = Ownership("abc", "gw0")


def filled(path: Path) -> list[dict[str, Any]]:
    names = ("server", "client", "friend", "other_friend", "foe", "bystander", "stranger")
    pods = {name: a_workload(name) for name in names}
    apps = {"client_app": "windows-client-2", "server_app": "windows-server"}
    apps |= {
        "beside_app": "linux-server",
        "guest": "linux-client",
        "new_pod": "linux-new-pod",
        "home": "ns",
    }
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
    ways = name.replace("ingress", "{way}").replace("egress", "{way}")
    assert (
        name in suites
        or f'either_policy_api("{path.stem}")' in suites
        or f'either_way("{ways}")' in suites
    )


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
