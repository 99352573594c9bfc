# SPDX-License-Identifier: Apache-2.0
"""Routes and HNS objects of a BGP cluster are those of tests/golden/bgp, whose README says where they are from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hybridlab.networks.contract.routing import BlockFacts, RoutingFacts
from hybridlab.networks.contract.windows_node import WindowsNode
from hybridlab.networks.l2bridge.bgp import end_of
from hybridlab.networks.l2bridge.plane import BIRD, L2Bridge
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import machines
from hybridlab.windows import hns_objects

GOLDEN = Path(__file__).parents[3] / "golden" / "bgp"
HNS: dict[str, Any] = json.loads((GOLDEN / "hns.json").read_text())
BLOCK = "192.168.4.0/26"


@pytest.fixture
def plane() -> L2Bridge:
    return L2Bridge(load("bgp"))


@pytest.fixture
def windows(plane: L2Bridge) -> WindowsNode:
    machine = next(machine for machine in machines(plane.profile) if machine.os == "windows")
    node = plane.windows_node(machine, "10-calico.conflist")
    node.hns.ensure_pod_network(plane.started_network(node, BLOCK))
    port = plane.pod_port(machine, "192.168.4.5", BLOCK, node)
    assert port.mac is not None
    node.hns.attach("uid", "sandbox", "192.168.4.5", port.mac)
    return node


def test_networks_of_a_windows_node(windows: WindowsNode) -> None:
    shown = {
        network.name: hns_objects.network(network, windows.machine.address, ())
        for network in windows.hns.networks
    }
    assert shown.keys() == HNS["networks"].keys()
    for name, wanted in HNS["networks"].items():
        assert wanted.items() <= shown[name].items(), name


def test_endpoints_of_a_windows_node(windows: WindowsNode) -> None:
    networks = {network.id: network for network in windows.hns.networks}
    shown = {
        one.name: hns_objects.endpoint(one, networks[one.network], windows.pod_policies, ())
        for one in windows.hns.endpoints
    }
    assert shown.keys() == HNS["endpoints"].keys()
    for name, wanted in HNS["endpoints"].items():
        assert wanted.items() <= shown[name].items(), name
    assert {shown[name]["MacAddress"][:8] for name in shown} == {"00-15-5D"}


def test_the_cni_configuration_of_a_windows_node(windows: WindowsNode) -> None:
    assert HNS["cni"].items() <= windows.plugin.items()


def test_routes_of_a_linux_node(plane: L2Bridge) -> None:
    names = {machine.address: machine.name for machine in machines(plane.profile)}
    one, two, third = names["10.0.0.11"], names["10.0.0.12"], names["10.0.0.14"]
    facts = RoutingFacts(ends={name: end_of(address, {}) for address, name in names.items()})
    for cidr, owner in (("192.168.1.0/26", one), ("192.168.2.0/26", two), (BLOCK, third)):
        borrowed = (("192.168.2.9", third),) if owner == two else ()
        facts.blocks[cidr] = BlockFacts(cidr=cidr, node=owner, borrowed=borrowed)
    for name in names.values():
        plane.ran(name, "confd", now=True)
        plane.ran(name, "calico-node", now=True)
    routes = plane.program(one, facts, {}, None).routes
    assert {route.protocol for route in routes.direct} == {routes.own_protocol} == {BIRD}
    lines = [f"blackhole {cidr} proto bird" for cidr in routes.own_blocks]
    lines += [
        f"{route.cidr} via {route.via} dev {plane.device} proto bird" for route in routes.direct
    ]
    assert lines == (GOLDEN / "routes.txt").read_text().splitlines()
