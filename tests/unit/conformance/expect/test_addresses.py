# SPDX-License-Identifier: Apache-2.0
"""The source addresses of a node that a server may receive: the node's own, and that of its
overlay device."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.expect.addresses import Addresses
from conformance.model.endpoint import Workload
from tests.unit.conformance.builders import a_node, a_workload, some_facts

CALICO = {"projectcalico.org/IPv4VXLANTunnelAddr": "10.244.1.65"}
FLANNEL = "flannel.alpha.coreos.com/backend-type"
NETWORKS = ("10.244.1.0/24", "fd00::/64")


def client(**about: Any) -> tuple[Addresses, Workload]:
    """A Linux node's addresses and a pod of it."""
    pod = a_workload("client", address="10.244.1.9")
    node = a_node(pod.node, "linux", pod_networks=NETWORKS, **about)
    return Addresses(some_facts(node)), pod


@pytest.mark.parametrize(
    ("annotations", "device"),
    [
        pytest.param({}, [], id="no overlay"),
        pytest.param(CALICO, ["10.244.1.65"], id="Calico's overlay"),
        pytest.param({FLANNEL: "host-gw"}, [], id="flannel without an overlay"),
        pytest.param({FLANNEL: "vxlan"}, ["10.244.1.0"], id="flannel's overlay"),
        pytest.param({FLANNEL: "vxlan", **CALICO}, ["10.244.1.65"], id="Calico's, once flannel's"),
    ],
)
def test_a_node_is_seen_by_its_own_address_and_its_overlay_s_device(
    annotations: dict[str, str], device: list[str]
) -> None:
    addresses, pod = client(annotations=annotations)
    assert addresses.of_node(pod) == [pod.node_address, *device]
    assert addresses.behind(pod) == [pod.address, pod.node_address, *device]
    for address in device:
        assert addresses.named(address, pod) == f"{address} (tunnel address of {pod.node})"
