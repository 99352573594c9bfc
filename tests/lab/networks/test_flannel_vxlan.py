# SPDX-License-Identifier: Apache-2.0
"""flannel's overlay carries pods' packets inside UDP 4789, by devices with flanneld's names. A
plane that carries them otherwise is noticed, and each fault closes only its own path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hybridlab.dataplane.model import DirectRoute
from hybridlab.faults.errors import BadFault
from hybridlab.networks.contract.plane import NodeProgram
from hybridlab.networks.flannel.plane import FlannelVxlan
from hybridlab.networks.routed.plane import STATIC
from hybridlab.profiles.machines import pod_cidr
from tests.lab.calico.conftest import CalicoLab, calico_lab, six_pods
from tests.lab.networks.test_l2bridge import BARE, HIDDEN, PAIRS, seen

DENY: dict[str, Any] = {"podSelector": {}, "policyTypes": ["Ingress"]}


@pytest.fixture(scope="module")
def lab() -> Iterator[CalicoLab]:
    with calico_lab(profile="flannel-vxlan") as made:
        yield six_pods(made)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_underlay_carries_pods_packets_inside_vxlan(
    lab: CalicoLab, source: str, target: str
) -> None:
    hidden, missing = seen(lab, source, target)
    assert (hidden, len(missing)) == HIDDEN


def test_a_plane_that_carries_them_as_they_are_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true = FlannelVxlan.program

    def program(self: FlannelVxlan, *given: Any) -> NodeProgram:
        made = true(self, *given)
        direct = tuple(
            DirectRoute(cidr=block.cidr, via=block.node_address, protocol=STATIC)
            for block in made.routes.remote_blocks
        )
        return replace(made, routes=replace(made.routes, remote_blocks=(), direct=direct))

    monkeypatch.setattr(FlannelVxlan, "program", program)
    with calico_lab(profile="flannel-vxlan") as made:
        six_pods(made)
        found = {pair: seen(made, *pair) for pair in PAIRS}
    assert {(hidden, len(missing)) for hidden, missing in found.values()} == {BARE}


def test_nodes_lead_to_each_podcidr_by_flannel_s_device(lab: CalicoLab) -> None:
    cidrs = {name: pod_cidr(node, lab.profile) for name, node in lab.calico.nodes.items()}
    for node in cidrs:
        facts: Any = lab.run(lab.plane.facts(node))
        (device,) = (link for link in facts["links"] if link.get("kind") == "vxlan")
        assert device["ifname"] == "flannel.4096"
        by_tunnel = {
            route["dst"] for route in facts["routes"] if route.get("gateway", "").endswith(".0")
        }
        assert by_tunnel == {cidr for name, cidr in cidrs.items() if name != node}


def test_hns_leads_to_each_node_with_flannel_s_vni(lab: CalicoLab) -> None:
    windows = lab.calico.windows["windows-2022"]
    network = windows.hns.pod_network
    assert network is not None
    assert (network.name, network.spec.type, network.vsid) == ("flannel.4096", "Overlay", 4096)


def test_a_missing_route_stops_one_node_s_way_to_another(lab: CalicoLab) -> None:
    with lab.fault("node-route-missing", node="windows-2022", to="linux-1"):
        assert lab.attempt("w1", "l1") == "timed out"
        assert lab.attempt("w1", "l2") == lab.addresses["w1"]
    assert lab.attempt("w1", "l1") == lab.addresses["w1"]


def test_an_underlay_without_udp_4789_stops_a_node_s_pods(lab: CalicoLab) -> None:
    with lab.fault("udp4789-dropped", scope="node", node="linux-1"):
        assert lab.attempt("l1", "w1") == "timed out"
        assert lab.attempt("l2", "w1") == lab.addresses["l2"]
    assert lab.attempt("l1", "w1") == lab.addresses["l1"]


def test_the_fabric_has_no_routes_that_could_be_missing(lab: CalicoLab) -> None:
    with pytest.raises(BadFault, match="have the routes to pods: see node-route-missing"):
        lab.run(lab.injector.inject("fabric-route-missing", {"node": "windows-2022"}))


def test_a_pod_is_open_until_felix_has_programmed_it(lab: CalicoLab) -> None:
    with lab.policy(DENY):
        lab.stop_felix("windows-2022")
        lab.pod("new", "windows-2022", app="new")
        try:
            assert lab.attempt("l1", "new") == lab.addresses["l1"]
        finally:
            lab.start_felix("windows-2022")
        assert lab.attempt("l1", "new") == "timed out"
    lab.remove("new")
