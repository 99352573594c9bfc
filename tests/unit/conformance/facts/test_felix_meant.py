# SPDX-License-Identifier: Apache-2.0
"""Nodes on which Felix is meant to run, nodes on which it is not, and nodes about which the API
says nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.catalog.claims import Needs
from conformance.errors import ClusterUnusable, MissingCapability, ProbeBroken
from conformance.facts.calico_workloads import CalicoWorkloads
from conformance.facts.felix_meant import FelixMeant, selects
from conformance.facts.node_readings import SERVICE
from conformance.facts.preflight import preflight
from conformance.model.facts import Fact, Facts, NodeFacts
from conformance.pods.placement import Placement
from conformance.schedule.plan import PlannedTest, prospect_of
from conformance.settings import Settings
from conformance.verdicts.prospect import ClaimPart
from tests.plugin.stand_in_cluster import facts, node
from tests.unit.conformance.facts.test_node_readings import Host

WIN = node("win", "windows", (20348, 2762))
ADDRESS = {"projectcalico.org/IPv4Address": "192.0.2.11/24"}
NODE_SELECTOR = {"kubernetes.io/os": "windows"}


def daemonset(**pod: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "calico-node-windows", "namespace": "calico-system"},
        "spec": {"template": {"spec": {"nodeSelector": NODE_SELECTOR, **pod}}},
    }


def affinity(*expressions: dict[str, Any], key: str = "matchExpressions") -> dict[str, Any]:
    terms = [{key: [expression]} for expression in expressions]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


EXISTS_A = {"key": "a", "operator": "Exists"}
OTHER_NAME = {"key": "metadata.name", "operator": "In", "values": ["other"]}


@pytest.mark.parametrize(
    ("pod", "labels", "wanted"),
    [
        ({}, {}, True),
        ({"nodeSelector": {"calico": "on"}}, {}, False),
        ({"nodeSelector": {"calico": "on"}}, {"calico": "on"}, True),
        (affinity({"key": "a", "operator": "In", "values": ["1"]}), {"a": "1"}, True),
        (affinity({"key": "a", "operator": "In", "values": ["1"]}), {}, False),
        (affinity({"key": "a", "operator": "NotIn", "values": ["1"]}), {"a": "1"}, False),
        (affinity({"key": "a", "operator": "Exists"}), {}, False),
        (affinity({"key": "a", "operator": "DoesNotExist"}), {"a": ""}, False),
        (affinity({"key": "a", "operator": "Gt", "values": ["1"]}), {"a": "2"}, True),
        (affinity(EXISTS_A, {"key": "b", "operator": "Exists"}), {"b": ""}, True),
        (affinity(OTHER_NAME, key="matchFields"), {}, False),
        (affinity(EXISTS_A, key="unknownField"), {"a": ""}, False),
    ],
)
def test_a_daemonset_selects_a_node_as_the_scheduler_does(
    pod: dict[str, Any], labels: dict[str, str], wanted: bool
) -> None:
    assert selects(daemonset(**pod), replace(WIN, labels=labels)) is wanted


LINUX = {"metadata": {"name": "calico-node", "namespace": "calico-system"}}
NETWORKED = "Calico is the network of pods (mode vxlan)"
HNS = {"spec": {"calicoNetwork": {"windowsDataplane": "HNS"}}}


def meant(own: NodeFacts = WIN, *, windows: Any = None, linux: Any = LINUX, **changed: Any) -> Any:
    plain: dict[str, Any] = {
        "pods": {},
        "unread": "",
        "installation": None,
        "blocks": {},
        "platform": "self-managed",
        "networked": "",
    }
    found = FelixMeant(found=CalicoWorkloads(linux, windows), **{**plain, **changed})
    return found.on(own).value


ANNOTATED = replace(WIN, annotations=ADDRESS)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"pods": {"win": "calico-system/calico-node-windows-x"}, "linux": None}, True),
        ({"windows": daemonset()}, True),
        ({"installation": HNS}, True),
        ({"installation": HNS, "linux": None}, False),
        ({"linux": None, "own": ANNOTATED}, False),
        ({"linux": None, "blocks": {"win": ["10.0.0.0/26"]}}, False),
        ({"linux": None, "unread": "no right to read DaemonSet"}, None),
        ({"networked": NETWORKED, "own": ANNOTATED}, None),
        ({"networked": NETWORKED, "blocks": {"win": ["10.0.0.0/26"]}}, None),
        ({"networked": NETWORKED}, False),
        ({"networked": NETWORKED, "platform": "rke2"}, None),
        ({"networked": NETWORKED, "unread": "no right to read Pod"}, None),
        ({"platform": "gke"}, False),
        ({"platform": "gke", "own": ANNOTATED}, None),
        ({"platform": "aks"}, None),
        ({}, None),
        ({"windows": daemonset(nodeSelector={"calico": "on"})}, False),
        ({"windows": daemonset(nodeSelector={"calico": "on"}), "own": ANNOTATED}, None),
    ],
)
def test_felix_is_meant_to_run_or_not_or_nobody_knows(asked: dict[str, Any], wanted: Any) -> None:
    assert meant(**asked) is wanted


def cluster(**of: Fact[bool]) -> Facts:
    found = [
        replace(node(name, "windows", (20348, 2762)), felix=felix) for name, felix in of.items()
    ]
    return replace(facts(windows=0), nodes=(*facts(windows=0).nodes, *found)).with_calico()


MEANT, BARE = Fact(True, "a pod is there"), Fact(False, "nothing asks for it")


def test_a_node_without_calico_is_left_out_beside_one_that_has_it() -> None:
    found = cluster(win=MEANT, bare=BARE)
    assert [one.name for one in found.by_os("windows")] == ["win"]
    assert [one.name for one in found.left_out] == ["bare"]


def test_where_no_node_has_calico_all_are_refused_at_once_and_take_no_pods(
    kube: Any, world: Any
) -> None:
    found = cluster(a=BARE, b=BARE)
    placement = Placement(found)
    with pytest.raises(ClusterUnusable) as caught:
        preflight(kube, found, rights=(), unusable=placement.unusable)
    (reason,) = caught.value.reasons
    assert reason.startswith(
        "no Windows node is meant to run Calico, so there is nothing to judge. Reason: a, b: "
        "nothing asks for it. The run looked for "
    )
    assert placement.coverage("windows") == ()


def test_a_node_that_is_meant_to_run_felix_stays_covered_whether_it_does_or_not() -> None:
    found = cluster(win=MEANT, other=Fact(None, "not known: nothing says it"))
    assert {item.node.name for item in Placement(found).coverage("windows")} == {"win", "other"}


@pytest.mark.parametrize(
    ("program", "service", "annotations", "wanted"),
    [
        (("C:\\CalicoWindows\\calico-node.exe", "v3.24.0"), False, {}, True),
        (("", ""), True, {}, True),
        (("", ""), False, {}, False),
        (("", ""), False, ADDRESS, None),
        (("", ""), ProbeBroken("no answer"), {}, None),
        (MissingCapability("no HostProcess pods", "allow them"), False, {}, None),
    ],
)
def test_a_look_into_the_node_decides_where_the_api_says_nothing(
    program: Any, service: Any, annotations: dict[str, str], wanted: bool | None
) -> None:
    host = Host(program=program)
    unknown = Fact[bool](None, "not known: nothing in the API shows it")
    nodes = tuple(
        replace(one, felix=unknown, annotations=annotations) if one.os == "windows" else one
        for one in host.known.nodes
    )
    host.known = replace(host.known, nodes=nodes)

    def state(name: str, which: str) -> str:
        assert (name, which) == ("win-0", SERVICE)
        if isinstance(service, Exception):
            raise service
        return "Running" if service else ""

    host.service = state  # type: ignore[attr-defined]
    (found,) = host.looked().by_os("windows")
    assert found.felix is not None
    assert found.felix.value is wanted


def test_a_look_that_finds_no_calico_leaves_its_node_out_of_what_follows() -> None:
    found = cluster(win=MEANT, other=Fact(None, "not known"))
    after = found.learnt("felix", "other", BARE)
    assert [one.name for one in after.by_os("windows")] == ["win"]
    alone = cluster(win=Fact(None, "not known")).learnt("felix", "win", BARE)
    test = PlannedTest(test="t", parts=(ClaimPart(claim="CONN-1"),), needs=Needs(windows=1))
    told = prospect_of(test, catalog(), alone, Settings()).reason
    assert "but this cluster has none; node win has no Calico: nothing asks for it" in told
