# SPDX-License-Identifier: Apache-2.0
"""Felix' environment variables win over the node's FelixConfiguration, which wins over the
default one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.catalog.claims import Needs
from conformance.facts.calico_workloads import CalicoWorkloads
from conformance.facts.detect import detect
from conformance.facts.felix_settings import FelixSettings, is_on, overrides, ruled
from conformance.facts.networks.linux_routes import LinuxRoutes
from conformance.facts.networks.vxlan import VxlanFacts
from conformance.facts.not_on_windows import NotOnWindows
from conformance.facts.objects import CalicoObjects
from conformance.facts.remedies import Remedies
from conformance.model.claim import ClaimVerdict
from conformance.model.facts import Fact
from conformance.schedule.plan import PlannedTest, prospect_of
from conformance.settings import Settings
from conformance.verdicts.prospect import ClaimPart
from tests.plugin.stand_in_cluster import node
from tests.unit.conformance.facts.platforms.served import clusters, served
from tests.unit.conformance.facts.test_vxlan import GOOD, Cluster, only

LIN, WIN = node("lin", "linux"), node("win", "windows", (20348, 2762))
OF_LINUX = {"linux": {"vxlanVNI": Fact("10000", "FELIX_VXLANVNI=10000 of DaemonSet k/calico-node")}}
OF_NODE = {"node.win": {"vxlanVNI": Fact("5000", "FelixConfiguration node.win .spec.vxlanVNI")}}


def settings(spec: dict[str, Any] | None, **overriding: Any) -> FelixSettings:
    found = None if spec is None else {"spec": spec}
    return FelixSettings(lambda: (found, "crd.projectcalico.org/v1"), overriding)


@pytest.mark.parametrize(
    ("overriding", "on_linux", "on_windows"),
    [
        ({}, "4097", "4097"),
        (OF_LINUX, "10000", "4097"),
        (OF_NODE, "4097", "5000"),
        ({**OF_NODE, "windows": OF_LINUX["linux"]}, "4097", "10000"),
    ],
)
def test_what_wins_on_a_node_is_its_environment_then_its_own_configuration_then_the_default(
    overriding: Any, on_linux: str, on_windows: str
) -> None:
    found = settings({"vxlanVNI": 4097}, **overriding)
    assert [found.on("vxlanVNI", one).value for one in (LIN, WIN)] == [on_linux, on_windows]


def test_everything_that_sets_a_field_is_told_and_the_default_only_where_it_counts() -> None:
    both = {**OF_LINUX, "windows": {"vxlanVNI": Fact("10000", "FELIX_VXLANVNI of Windows")}}
    found = settings({}, **both).everywhere("vxlanVNI", [LIN, WIN])
    assert {fact.value for fact in found.values()} == {"10000"}
    other = node("other", "windows", (20348, 2762))
    one = settings({}, **OF_LINUX, **OF_NODE).everywhere("vxlanVNI", [LIN, WIN, other])
    assert [fact.value for fact in one.values()] == ["10000", "5000", None]
    assert "vxlanVNI (crd.projectcalico.org/v1) is not set" in list(one.values())[-1].source
    assert list(settings({}, **OF_LINUX).everywhere("vxlanVNI", [LIN])) == [
        "FELIX_VXLANVNI=10000 of DaemonSet k/calico-node"
    ]
    assert ruled({**OF_LINUX, **OF_NODE}, "vxlanVNI").endswith(
        "calico-node and FelixConfiguration node.win .spec.vxlanVNI"
    )
    assert ruled(OF_LINUX, "vxlanPort") == ""


@pytest.mark.parametrize(
    ("of", "nodes", "values"),
    [
        ("lin", [LIN], {"10000"}),  # behind the environment
        ("win", [LIN], {"10000"}),  # of another node than is asked for
        ("gone", [LIN, WIN], {"10000", "4097"}),
        ("win", [LIN, WIN], {"10000", "5000"}),
    ],
)
def test_a_configuration_that_wins_on_no_node_is_not_what_is_configured(
    of: str, nodes: list[Any], values: set[str]
) -> None:
    given = {**OF_LINUX, f"node.{of}": OF_NODE["node.win"]}
    found = settings({"vxlanVNI": 4097}, **given).everywhere("vxlanVNI", nodes)
    assert {fact.value for fact in found.values()} == values


def test_a_device_and_a_network_are_compared_with_what_is_configured_on_their_own_node() -> None:
    cluster = Cluster(GOOD)
    cluster.felix = {"vxlanVNI": 4097}
    calico = cluster.objects_of(cluster.facts()._calico.facts)

    def told(overriding: Any) -> list[Any]:
        hosts: Any = cluster
        vxlan = VxlanFacts(calico, hosts, looked_into=["l1"], overriding=overriding)
        return [only(vxlan.device_vni("l1")), only(vxlan.vsid("w1"))]

    configured, other = "the configured VNI", "4096, but the configured VNI is 4097"
    on_4096 = {"vxlanVNI": Fact("4096", "a variable")}
    assert told({}) == [other, other]
    assert told({"linux": on_4096}) == [configured, other]
    assert told({"linux": on_4096, "windows": on_4096}) == [configured, configured]
    assert told({"node.w1": on_4096}) == [other, configured]


def test_the_configuration_of_a_node_that_is_gone_rules_nothing() -> None:
    given = [
        {"metadata": {"name": name}, "spec": {"vxlanVNI": 5000}}
        for name in ("default", "node.win", "node.gone")
    ]
    reading: Any = None  # no DaemonSet, no variable
    found = overrides(reading, CalicoWorkloads(None, None), given, [LIN, WIN])
    assert found == OF_NODE


@pytest.mark.parametrize(
    ("value", "told"), [("true", True), ("Yes", True), ("1", True), ("0", False), (None, False)]
)
def test_felix_takes_several_words_for_yes(value: str | None, told: bool) -> None:
    assert is_on(value) is told


@pytest.fixture
def k0s(tmp_path: Path) -> Any:
    """What is found out about k0s with a VNI of its own, and the objects of its cluster."""
    cluster = next(one for one in clusters() if one.name == "k0s-other-vni")
    with served(cluster, tmp_path) as kube:
        yield kube, detect(kube)


def test_k0s_configures_by_variables_on_both_systems(k0s: Any) -> None:
    kube, facts = k0s
    calico = CalicoObjects(kube, facts)
    vxlan = VxlanFacts(calico, None, overriding=facts.felix_overrides)  # type: ignore[arg-type]
    vni, port = vxlan.configured("vxlanVNI"), vxlan.configured("vxlanPort")
    assert {fact.value for fact in vni.values()} == {10000}
    assert sorted(vni) == [
        f"FELIX_VXLANVNI=10000 of DaemonSet kube-system/calico-node{suffix}"
        for suffix in ("", "-windows")
    ]
    assert {fact.value for fact in port.values()} == {4789}
    assert calico.mtu().value == 1400
    assert LinuxRoutes(calico, lambda name: GOOD).ipip_setting()  # by FelixConfiguration
    with pytest.raises(Exception, match="WireGuard is enabled, but no Linux node has a key"):
        NotOnWindows(calico).keys("win")
    assert (
        Remedies(kube, facts)
        .felix("vxlanVNI")
        .startswith("remove what overrides FelixConfiguration default: FELIX_VXLANVNI=10000")
    )


@pytest.mark.parametrize("claim", ["VXLAN-9", "VXLAN-10"])
def test_where_a_variable_rules_the_vni_no_other_is_delivered(k0s: Any, claim: str) -> None:
    facts = k0s[1]
    allowed = Settings(disruptive=True, cluster_disruptive=True, max_disrupted_nodes=9)
    test = PlannedTest(
        test="t", parts=(ClaimPart(claim=claim, part="changed"),), needs=Needs(vni_delivery=True)
    )
    found = prospect_of(test, catalog(), facts, allowed)
    assert found.verdict is ClaimVerdict.NOT_RUN
    assert "FELIX_VXLANVNI=10000 of DaemonSet kube-system/calico-node" in found.reason
    assert "overrides the VNI of FelixConfiguration default" in found.reason
