# SPDX-License-Identifier: Apache-2.0
"""On routed networks pods' packets cross the underlay without encapsulation, with every plugin,
by routes of the cloud or of the nodes. A plane that encapsulates them is noticed, and each fault
of a route closes only its own path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hybridlab.dataplane.model import FabricTable
from hybridlab.faults.errors import BadFault
from hybridlab.networks.contract.plane import NodeProgram
from hybridlab.networks.routed.plane import STATIC, Routed
from hybridlab.networks.routed.settings import RoutedSettings
from hybridlab.networks.vxlan.plane import Vxlan
from hybridlab.profiles.load import load
from tests.lab.calico.conftest import CalicoLab, calico_lab, six_pods
from tests.lab.networks.test_l2bridge import PAIRS, complaints

PROFILES = ("cloud-routes", "static-routes", "aks-operator", "eks-vpc", "canal-host-gw")
"""A profile of each plugin."""
DENY: dict[str, Any] = {"podSelector": {}, "policyTypes": ["Ingress"]}


@pytest.fixture(scope="module", params=PROFILES)
def lab(request: pytest.FixtureRequest) -> Iterator[CalicoLab]:
    with calico_lab(profile=request.param) as made:
        yield with_pods(made)


def with_pods(lab: CalicoLab) -> CalicoLab:
    """Six pods; the plugin takes them all, as if its webhook had seen them, which is the API
    server's."""
    plane = lab.calico.plane
    assert isinstance(plane, Routed)
    plane.plugin.refusal = lambda pod: ""  # type: ignore[method-assign]
    return six_pods(lab)


def of(lab: CalicoLab, *profiles: str) -> None:
    if lab.profile.name not in profiles:
        pytest.skip(f"not on {lab.profile.name}")


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_underlay_carries_pods_packets_as_they_are(
    lab: CalicoLab, source: str, target: str
) -> None:
    assert complaints(lab, source, target) == []


def test_nodes_have_routes_to_pods_only_where_nobody_else_routes(lab: CalicoLab) -> None:
    by_hand = lab.profile.name in {"static-routes", "canal-host-gw"}
    for node in lab.calico.nodes:
        facts: Any = lab.run(lab.plane.facts(node))
        assert "vxlan" not in {link.get("kind") for link in facts["links"]}
        via = {
            route["gateway"]
            for route in facts["routes"]
            if route["protocol"] == STATIC and route["type"] != "blackhole"
        }
        others = {machine.address for machine in lab.calico.nodes.values() if machine.name != node}
        assert via == (others if by_hand else set())


def test_a_policy_closes_pods_of_any_plugin(lab: CalicoLab) -> None:
    with lab.policy(DENY):
        assert [lab.attempt("l1", name) for name in ("w1", "l2")] == ["timed out", "timed out"]
    assert [lab.attempt("l1", name) for name in ("w1", "l2")] == [lab.addresses["l1"]] * 2


def test_a_missing_route_stops_one_node_s_way_to_another(lab: CalicoLab) -> None:
    of(lab, "static-routes", "canal-host-gw")
    with lab.fault("node-route-missing", node="windows-2022", to="linux-1"):
        assert lab.attempt("w1", "l1") == "timed out"
        assert lab.attempt("w1", "l2") == lab.addresses["w1"]
    assert lab.attempt("w1", "l1") == lab.addresses["w1"]


def test_a_missing_route_of_the_fabric_stops_all_ways_to_a_node(lab: CalicoLab) -> None:
    of(lab, "cloud-routes", "aks-operator", "eks-vpc")
    with lab.fault("fabric-route-missing", node="windows-2022"):
        assert lab.attempt("l1", "w1") == "timed out"
        assert lab.attempt("l1", "w2") == lab.addresses["l1"]
    assert lab.attempt("l1", "w1") == lab.addresses["l1"]


def test_a_fault_of_the_other_kind_of_routes_is_refused(lab: CalicoLab) -> None:
    cloud = lab.profile.name in {"cloud-routes", "aks-operator", "eks-vpc"}
    name, more = (
        ("node-route-missing", {"to": "linux-1"}) if cloud else ("fabric-route-missing", {})
    )
    with pytest.raises(BadFault, match="see node-route" if not cloud else "see fabric-route"):
        lab.run(lab.injector.inject(name, {"node": "windows-2022", **more}))


def test_a_source_check_stops_pods_where_no_cloud_knows_their_addresses(lab: CalicoLab) -> None:
    of(lab, "static-routes", "canal-host-gw")
    with lab.fault("source-check-on", node="linux-1"):
        assert lab.attempt("l1", "w1") == "timed out"
        assert lab.attempt("l2", "w1") == lab.addresses["l2"]


def test_a_host_without_its_endpoint_loses_its_pods_way_out(lab: CalicoLab) -> None:
    if lab.calico.windows["windows-2022"].hns.host_endpoint is None:
        with pytest.raises(BadFault, match="windows-2022 has no host endpoint"):
            lab.run(lab.injector.inject("host-endpoint-missing", {"node": "windows-2022"}))
        return
    with lab.fault("host-endpoint-missing", node="windows-2022"):
        assert lab.attempt("w1", "l1") == "timed out"
    assert lab.attempt("w1", "l1") == lab.addresses["w1"]


def test_a_pod_is_open_until_felix_has_programmed_it_where_another_plugin_wired_it(
    lab: CalicoLab,
) -> None:
    leaves_open = lab.profile.name != "cloud-routes"
    with lab.policy(DENY):
        lab.stop_felix("windows-2022")
        lab.pod("new", "windows-2022", app="new")
        try:
            assert (lab.attempt("l1", "new") == lab.addresses["l1"]) is leaves_open
        finally:
            lab.start_felix("windows-2022")
        assert lab.attempt("l1", "new") == "timed out"
    lab.remove("new")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_plane_that_carries_them_over_vxlan_is_found_out(
    monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    hidden = Vxlan(load("default"))

    def program(self: Routed, node: str, facts: Any, felix: Any, windows: Any) -> NodeProgram:
        return hidden.program(node, facts, felix, None)

    monkeypatch.setattr(Routed, "program", program)
    monkeypatch.setattr(Routed, "fabric", lambda self, facts: FabricTable())
    monkeypatch.setattr(Routed, "claim", lambda self, node, source: hidden.claim(node, source))
    monkeypatch.setattr(Routed, "node_end", lambda self, name, meta: hidden.node_end(name, meta))
    monkeypatch.setattr(Routed, "has_backend", True)
    monkeypatch.setattr(RoutedSettings, "problem", lambda self, profile: None)
    with calico_lab("network.ipam=calico-ipam", profile=profile) as made:
        with_pods(made)
        assert [
            pair for pair in PAIRS if "UDP 4789 on the underlay" not in complaints(made, *pair)
        ] == []
