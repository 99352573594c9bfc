# SPDX-License-Identifier: Apache-2.0
"""With host-local pods have addresses of their node's podCIDR, which is routed, and Calico's IPAM has no block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hybridlab.networks.l2bridge.plane import BIRD
from tests.lab.calico.conftest import CalicoLab, calico_lab, six_pods
from tests.lab.networks.test_l2bridge import PAIRS, SETTINGS, complaints


@pytest.fixture(scope="module")
def lab() -> Iterator[CalicoLab]:
    with calico_lab(*SETTINGS, "network.ipam=host-local") as made:
        yield six_pods(made)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_pods_of_two_nodes_reach_each_other(lab: CalicoLab, source: str, target: str) -> None:
    assert complaints(lab, source, target) == []


def test_each_node_has_routes_to_the_pod_cidrs_of_all(lab: CalicoLab) -> None:
    own = {
        obj["metadata"]["name"]: obj["spec"]["podCIDR"]
        for obj in lab.run(lab.client.list("nodes"))[0]
    }
    for node in lab.calico.nodes:
        facts: Any = lab.run(lab.plane.facts(node))
        by_bird = {
            route["dst"]: route.get("gateway")
            for route in facts["routes"]
            if route["protocol"] == BIRD
        }
        assert by_bird == {
            cidr: None if name == node else lab.calico.nodes[name].address
            for name, cidr in own.items()
        }
        assert lab.calico.addresses.networks_of(node) == (own[node],)


def test_a_windows_pods_gateway_is_in_its_pod_cidr_and_no_block_is_there(lab: CalicoLab) -> None:
    cidr = lab.calico.addresses.own_network("windows-2022")
    hns = lab.calico.windows["windows-2022"].hns
    assert hns.pod_network is not None
    assert (hns.pod_network.spec.subnet, hns.host_endpoint) == (cidr, cidr.replace(".0/24", ".2"))
    assert lab.run(lab.client.list("ipamblocks.crd.projectcalico.org"))[0] == []


@pytest.fixture(scope="module")
def as_shipped() -> Iterator[CalicoLab]:
    with calico_lab(profile="bgp-host-local-as-shipped") as made:
        yield six_pods(made)


def test_as_shipped_a_windows_node_announces_a_block_in_which_no_pod_is(
    as_shipped: CalicoLab,
) -> None:
    blocks = {str(block.cidr): block.node for block in as_shipped.calico.ipam.blocks()}
    assert set(blocks.values()) == {"windows-2022", "windows-2019"}
    facts: Any = as_shipped.run(as_shipped.plane.facts("linux-1"))
    by_bird = {route["dst"] for route in facts["routes"] if route["protocol"] == BIRD}
    assert by_bird >= set(blocks)
    for node in ("windows-2022", "windows-2019"):
        hns = as_shipped.calico.windows[node].hns
        assert hns.pod_network is not None
        assert hns.pod_network.spec.subnet == as_shipped.calico.addresses.own_network(node), (
            "the plugin's, not startup's"
        )
        assert hns.pod_network.spec.subnet not in by_bird


@pytest.mark.parametrize(
    ("pair", "passes"),
    [
        (("l1", "l2"), True),
        (("w1", "w1b"), True),
        (("l1", "w1"), False),
        (("w1", "l1"), False),
        (("w1", "w2"), False),
    ],
)
def test_as_shipped_windows_pods_are_reached_on_their_own_node_alone(
    as_shipped: CalicoLab, pair: tuple[str, str], *, passes: bool
) -> None:
    assert as_shipped.attempt(*pair) == (as_shipped.addresses[pair[0]] if passes else "timed out")
