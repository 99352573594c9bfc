# SPDX-License-Identifier: Apache-2.0
"""The lists of a cluster's Windows pods, rendered from its objects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import MissingCapability
from conformance.foreign.windows_lists import WindowsLists
from conformance.model.facts import Fact
from tests.unit.conformance.builders import a_node, a_pod, a_workload, some_facts
from tests.unit.conformance.facts.test_objects import Objects

V3 = "projectcalico.org/v3"
POD = a_workload("w", "windows", namespace="default", node="w1", address="192.168.1.3")


def policy(name: str, **spec: Any) -> dict[str, Any]:
    """A NetworkPolicy of Calico in the pod's namespace."""
    return {"metadata": {"namespace": "default", "name": name}, "spec": spec}


def lists(version: str | None, *policies: dict[str, Any]) -> WindowsLists:
    """The lists of a cluster with these policies."""
    status = {"podIP": "192.168.1.3", "podIPs": [{"ip": "192.168.1.3"}]}
    pod = a_pod("w", "w1", labels={"app": "web"}, status=status)
    space = {"metadata": {"name": "default", "labels": {}}}
    kube: Any = Objects(
        {
            ("v1", "Pod"): [pod],
            ("v1", "Namespace"): [space],
            (V3, "NetworkPolicy"): list(policies),
            (V3, "GlobalNetworkPolicy"): [],
            ("networking.k8s.io/v1", "NetworkPolicy"): [],
        }
    )
    facts = some_facts(a_node("w1", "windows"))
    return WindowsLists(kube, replace(facts, calico_version=Fact(version, "a test")))


def test_the_rules_of_a_policy_that_selects_the_pod_are_rendered() -> None:
    selecting = policy(
        "p", selector="app == 'web'", ingress=[{"action": "Allow"}], types=["Ingress"]
    )
    other = policy("q", selector="app == 'db'", ingress=[], types=["Ingress"])
    shipped, mended = lists("v3.31.2", selecting, other).expected(POD)
    assert shipped == mended
    assert [str(one) for one in shipped if one.direction == "In"] == [
        "Allow In any",
        "Block In any",
    ]
    assert shipped[0].policy == "NetworkPolicy default/p"


def test_a_list_of_a_release_is_the_one_with_all_its_known_defects() -> None:
    selecting = policy(
        "p", selector="app == 'web'", ingress=[{"action": "Allow"}], types=["Ingress"]
    )
    of = lists("v3.29.1", selecting)
    by_defects = of.by_defects(POD)
    shipped, mended = of.expected(POD)
    assert [text.count("XPOL-") for text in by_defects] == [0, 1, 1, 2]
    first, *_, last = by_defects.values()
    assert (first, last) == (mended, shipped)
    assert (
        "XPOL-6, if a Pass and a later rule have no port in common, any port matches"
        in list(by_defects)[1]
    )


def test_a_policy_that_cannot_be_read_counts_where_it_may_select_the_pod() -> None:
    elsewhere = policy("q", selector="app == 'db'", tomorrow=True)
    assert lists("v3.31.2", elsewhere).expected(POD)
    here = policy("p", selector="app == 'web'", tomorrow=True)
    with pytest.raises(
        MissingCapability, match=r"the access rules of .* are not known: .*unknown field"
    ):
        lists("v3.31.2", here).expected(POD)


@pytest.mark.parametrize("version", [None, "v3.28.1"])
def test_releases_whose_lists_nobody_knows_are_not_judged(version: str | None) -> None:
    with pytest.raises(MissingCapability, match=r"(is|are) not known"):
        lists(version).expected(POD)
