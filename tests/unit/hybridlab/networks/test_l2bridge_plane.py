# SPDX-License-Identifier: Apache-2.0
"""What l2bridge networks make of a pod, of Services and of Calico's objects, and what they refuse."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from hybridlab.faults.errors import BadFault
from hybridlab.faults.injector import Injector
from hybridlab.faults.lab_parts import LabParts
from hybridlab.networks.l2bridge.plane import L2Bridge
from hybridlab.networks.registry import fault_types
from hybridlab.profiles.check import ProfileError
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import Machine, machines
from hybridlab.windows.hns_networks import endpoint_mac

BLOCK = "192.168.4.64/26"


@pytest.fixture
def plane() -> L2Bridge:
    return L2Bridge(load("bgp"))


def windows(plane: L2Bridge) -> Machine:
    return next(machine for machine in machines(plane.profile) if machine.os == "windows")


@pytest.mark.parametrize(
    "version", ["v3.30.3", "v3.30.7", "v3.31.0", "v3.31.4", "v3.32.0", "v3.32.1"]
)
def test_releases_that_configure_no_bgp_on_windows_are_refused(version: str) -> None:
    with pytest.raises(
        ProfileError,
        match=rf"network\.plane is l2bridge, but Calico {version} configures no BGP on Windows",
    ):
        load("bgp", [f"calico.version={version}"])


@pytest.mark.parametrize("version", ["v3.30.2", "v3.30.8", "v3.31.5", "v3.32.2"])
def test_releases_before_and_after_are_taken(version: str) -> None:
    assert load("bgp", [f"calico.version={version}"]).calico.version == version


def test_a_profile_that_wants_a_release_as_it_was_shipped_gets_it() -> None:
    plane = L2Bridge(load("bgp-v3.31.2-as-shipped"))
    plane.ran("windows-2022", "confd", now=True)
    assert not plane.bgp.configured("windows-2022")
    assert plane.bgp.configured("linux-1")


@pytest.mark.parametrize(
    ("router", "why"),
    [
        (
            "{address: 192.0.2.1, asn: 64600}",
            r"192\.0\.2\.1, expected an address in a network of nodes",
        ),
        (
            "{address: 10.0.0.2, asn: 64600, underlay: true}",
            "expected the first address of a network of nodes",
        ),
        ("{address: router, asn: 64600}", "router"),
        ("{address: 10.0.0.250, asn: 64600, networks: [203.0.113.7/24]}", "has host bits set"),
    ],
)
def test_a_router_that_cannot_be_there_is_refused(router: str, why: str) -> None:
    with pytest.raises(ProfileError, match=rf"network\.plane\.routers.*{why}"):
        load("bgp", [f"network.plane.routers=[{router}]"])


def test_a_vni_is_no_field_of_it() -> None:
    with pytest.raises(ProfileError, match=r"unknown key 'network\.plane\.vni'"):
        load("bgp", ["network.plane.vni=4097"])


def test_services_show_the_node_without_dsr_and_pods_with_it(plane: L2Bridge) -> None:
    machine = windows(plane)
    assert plane.service_source(machine, BLOCK, enable_dsr=False) == machine.address
    assert plane.service_source(machine, BLOCK, enable_dsr=True) is None
    assert plane.kube_proxy("192.168.4.66").flags == ()


def test_pods_have_the_underlay_s_mtu_and_send_to_the_host_s_endpoint(plane: L2Bridge) -> None:
    node = plane.windows_node(windows(plane), "10-calico.conflist")
    port = plane.pod_port(node.machine, "192.168.4.70", BLOCK, node)
    assert (port.gateway, port.mtu) == ("192.168.4.66", 1500)
    assert port.mac == endpoint_mac(node.machine.name, "192.168.4.70")
    assert node.plugin["mode"] == "windows-bgp"


def test_faults_of_other_planes_are_not_offered() -> None:
    here, everywhere = fault_types("l2bridge"), fault_types()
    assert "vxlan-differs" in everywhere.keys() - here.keys()
    assert "policy-late" in here
    injector = Injector(cast(LabParts, None), here, everywhere)
    with pytest.raises(BadFault, match="fault vxlan-differs is not possible in this lab"):
        asyncio.run(injector.inject("vxlan-differs", {"node": "linux-1", "vni": "9"}))
