# SPDX-License-Identifier: Apache-2.0
"""What flannel's VXLAN backend makes of nodes, of HNS and of a pod, and what is refused.

Sources of the expected values: flannel-io/flannel pkg/backend/vxlan (vxlan_windows.go,
device_windows.go, vxlan_network.go), flannel-io/cni-plugin flannel_windows.go.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from hybridlab.networks.contract.plane import NodeProgram
from hybridlab.networks.contract.routing import BlockFacts, RoutingFacts
from hybridlab.networks.contract.windows_node import WindowsNode
from hybridlab.networks.flannel.plane import FlannelVxlan
from hybridlab.networks.ipam.host_local import HostLocal
from hybridlab.networks.registry import plane_of
from hybridlab.profiles.check import ProfileError
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import Machine, machines, pod_cidr
from hybridlab.windows import hns_objects

POD = "192.168.4.9"


@pytest.fixture
def plane() -> FlannelVxlan:
    found = plane_of(load("flannel-vxlan", ["network.plane.vni=5000"]))
    assert isinstance(found, FlannelVxlan)
    return found


@pytest.fixture
def windows(plane: FlannelVxlan) -> WindowsNode:
    """A Windows node with a pod."""
    node = plane.windows_node(machine(plane, "windows-2022"), "10-calico.conf")
    node.hns.attach("uid", "0123456789abcdef", POD, "0e:2a:c0:a8:04:09")
    return node


def machine(plane: FlannelVxlan, name: str) -> Machine:
    return next(each for each in machines(plane.profile) if each.name == name)


def announced(plane: FlannelVxlan, name: str) -> dict[str, str]:
    """The annotations that flanneld writes on a node."""
    addresses = HostLocal(plane.profile, machines(plane.profile))
    return plane.claim(machine(plane, name), addresses)


def program(plane: FlannelVxlan, node: str, *silent: str) -> NodeProgram:
    """The program of a node; on ``silent`` nodes flanneld has not run."""
    nodes = [each.name for each in machines(plane.profile)]
    known = {name: announced(plane, name) for name in nodes if name not in silent}
    ends = {name: plane.node_end(name, {"annotations": found}) for name, found in known.items()}
    cidrs = {name: pod_cidr(machine(plane, name), plane.profile) for name in nodes}
    blocks = {cidr: BlockFacts(cidr=cidr, node=name) for name, cidr in cidrs.items()}
    facts = RoutingFacts(ends={n: end for n, end in ends.items() if end}, blocks=blocks)
    return plane.program(node, facts, {"vxlanVNI": 7777, "vxlanPort": 7777}, None)


def test_flanneld_announces_its_backend_its_vni_and_its_mac(plane: FlannelVxlan) -> None:
    prefix = "flannel.alpha.coreos.com"
    found = announced(plane, "windows-2022")
    assert json.loads(found.pop(f"{prefix}/backend-data")) == {
        "VNI": 5000,
        "VtepMAC": "00:15:5d:7d:b7:3d",
    }
    assert found == {
        f"{prefix}/backend-type": "vxlan",
        f"{prefix}/public-ip": "10.0.0.14",
        f"{prefix}/kube-subnet-manager": "true",
    }


def test_the_tunnel_is_flannel_s_and_not_felix(plane: FlannelVxlan) -> None:
    tunnel = program(plane, "linux-1").tunnel
    assert tunnel is not None
    assert (tunnel.device, tunnel.identifier, tunnel.port, tunnel.mtu, tunnel.address) == (
        "flannel.5000",
        5000,
        4789,
        1450,
        "192.168.1.0",
    )


def test_a_node_leads_to_the_nodes_that_have_announced_themselves(plane: FlannelVxlan) -> None:
    made = program(plane, "linux-1", "windows-2022")
    assert {route.cidr: route.tunnel_address for route in made.routes.remote_blocks} == {
        f"192.168.{number}.0/24": f"192.168.{number}.0" for number in (0, 2, 3, 5)
    }
    assert made.unknown == ("192.168.4.0/24",)
    assert program(plane, "linux-1", "linux-1").tunnel is None


def test_a_fault_takes_the_way_of_one_node_to_another(plane: FlannelVxlan) -> None:
    plane.missing.node_routes["fault"] = ("linux-1", "windows-2022")
    here = {route.cidr for route in program(plane, "linux-1").routes.remote_blocks}
    there = {route.cidr for route in program(plane, "linux-2").routes.remote_blocks}
    assert there - here == {"192.168.4.0/24", "192.168.1.0/24"}
    assert here - there == {"192.168.2.0/24"}


def test_hns_has_an_overlay_of_flannel_s_name(plane: FlannelVxlan, windows: WindowsNode) -> None:
    network = windows.hns.pod_network
    assert network is not None
    assert (network.name, network.spec.type, network.vsid) == ("flannel.5000", "Overlay", 5000)
    assert plane.device == network.name
    made = program(plane, "windows-2022").routes
    ways = {way["DestinationPrefix"]: way for way in plane.hns_routes(made, windows)}
    assert ways["192.168.1.0/24"] == {
        "Type": "RemoteSubnetRoute",
        "DestinationPrefix": "192.168.1.0/24",
        "IsolationId": 5000,
        "DistributedRouterMacAddress": "66-CF-00-71-E8-4A",
        "ProviderAddress": "10.0.0.11",
    }


def test_win_overlay_wires_a_pod(plane: FlannelVxlan, windows: WindowsNode) -> None:
    port = plane.pod_port(windows.machine, POD, "192.168.4.0/24", windows)
    assert (port.gateway, port.mtu, port.mac, port.initial) == (
        "192.168.4.1",
        1450,
        "0e:2a:c0:a8:04:09",
        "open",
    )
    network = windows.hns.pod_network
    assert network is not None
    (pod,) = (each for each in windows.hns.endpoints if each.pod)
    shown: dict[str, Any] = hns_objects.endpoint(pod, network, windows.pod_policies, ())
    assert shown["Name"] == "0123456789abcdef_flannel.5000"
    (nat,) = (policy for policy in shown["Policies"] if policy["Type"] == "OutBoundNAT")
    assert nat["ExceptionList"] == ["192.168.0.0/16", "10.96.0.0/12"]
    assert {"Type": "PA", "PA": "10.0.0.14"} in shown["Policies"]


def test_the_file_of_the_plugin_delegates_to_win_overlay(windows: WindowsNode) -> None:
    (path,) = windows.cni_files
    conf = json.loads(windows.cni_text)
    assert path == r"C:\etc\cni\net.d\10-flannel.conf"
    assert (conf["type"], conf["delegate"]["type"]) == ("flannel", "win-overlay")


@pytest.mark.parametrize("dsr", [True, False], ids=["dsr", "no dsr"])
def test_services_see_the_source_vip_without_dsr(plane: FlannelVxlan, *, dsr: bool) -> None:
    node = machine(plane, "windows-2022")
    source = plane.service_source(node, "192.168.4.0/24", enable_dsr=dsr)
    assert source == (None if dsr else "192.168.4.2")
    flags = plane.kube_proxy("192.168.4.2")
    assert (flags.flags, flags.gates) == (("--source-vip=192.168.4.2",), ("WinOverlay=true",))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("network.plane.vni=1", "vni is 1, expected 4096 to"),
        ("network.ipam=calico-ipam", "needs network.ipam=host-local"),
        ("calico.install=operator", "which Calico's operator does not support"),
    ],
)
def test_what_windows_or_calico_cannot_do_is_refused(given: str, why: str) -> None:
    with pytest.raises(ProfileError, match=why):
        load("flannel-vxlan", [given])
