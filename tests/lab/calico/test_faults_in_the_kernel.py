# SPDX-License-Identifier: Apache-2.0
"""Faults with real packets: what each fault breaks, what it leaves alone, and that healing
repairs it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hybridlab.dataplane.model import Backend, ServicePort, ServiceTable
from tests.lab.calico.conftest import PORT, CalicoLab

DENY_ALL: dict[str, Any] = {"podSelector": {}}


def test_udp4789_dropped_everywhere_at_a_node_and_between_two(pods: CalicoLab) -> None:
    with pods.fault("udp4789-dropped"):
        assert not pods.reaches("l1", "l2")
        assert not pods.reaches("w1", "w2")
        assert pods.reaches("l1", "l1b")
        assert pods.reaches("w1", "w1b")
    with pods.fault("udp4789-dropped", scope="node", node="windows-2022"):
        assert not pods.reaches("l1", "w1")
        assert not pods.reaches("w1", "l1")
        assert pods.reaches("l1", "w2")
    with pods.fault("udp4789-dropped", scope="pair", node="linux-1", peer="windows-2022"):
        assert not pods.reaches("l1", "w1")
        assert not pods.reaches("w1", "l1")
        assert pods.reaches("l2", "w1")
    assert pods.reaches("l1", "w1")


def test_an_mtu_black_hole_lets_small_packets_pass(pods: CalicoLab) -> None:
    with pods.fault("mtu-black-hole", bytes="700"):
        assert pods.reaches("l1", "w1")
        assert not pods.datagram_passes("l1", "w1", 701 - 50)
        assert pods.datagram_passes("l1", "w1", 700 - 50)
        assert pods.datagram_passes("l1", "l1b", 1400)
    assert pods.datagram_passes("l1", "w1", 1400)


def test_fragments_are_lost_on_the_way_that_is_asked_for_and_whole_packets_pass(
    pods: CalicoLab,
) -> None:
    with pods.fault("fragments-dropped", node="windows-2022", way="out"):
        assert pods.datagram_passes("w1", "l1", 1400)
        assert not pods.datagram_passes("w1", "l1", 4000, whole=False)
        assert pods.datagram_passes("l1", "w1", 4000, whole=False)
        assert pods.datagram_passes("w2", "l1", 4000, whole=False)
    with pods.fault("fragments-dropped", node="linux-1", way="in"):
        assert not pods.datagram_passes("w1", "l1", 4000, whole=False)
        assert pods.datagram_passes("l1", "w1", 4000, whole=False)
    assert pods.datagram_passes("w1", "l1", 4000, whole=False)


@pytest.mark.parametrize(("node", "source"), [("linux-1", "l1"), ("windows-2022", "w1")])
@pytest.mark.parametrize("name", ["route-missing", "forwarding-wrong"])
def test_a_node_does_not_find_one_other_node(
    pods: CalicoLab, name: str, node: str, source: str
) -> None:
    with pods.fault(name, node=node, to="windows-2019"):
        assert not pods.reaches(source, "w2")
        assert pods.reaches(source, "l2")
    assert pods.reaches(source, "w2")


@pytest.mark.parametrize("entry", ["forwarding", "neighbour"])
def test_a_linux_node_lacks_an_entry_for_other_nodes(pods: CalicoLab, entry: str) -> None:
    with pods.fault("forwarding-missing", node="linux-1", entry=entry):
        assert not pods.reaches("l1", "w1")
        assert not pods.reaches("l1", "l2")
        assert pods.reaches("w1", "l2")
    assert pods.reaches("l1", "w1")


@pytest.mark.parametrize("differs", [{"vni": "4999"}, {"port": "4790"}], ids=["vni", "port"])
def test_a_device_that_differs_cuts_its_node_off(pods: CalicoLab, differs: dict[str, str]) -> None:
    with pods.fault("vxlan-differs", node="linux-1", **differs):
        assert not pods.reaches("l1", "w1")
        assert pods.reaches("l1", "l1b")
        assert pods.reaches("w1", "l2")
    assert pods.reaches("l1", "w1")


@pytest.mark.parametrize(
    ("node", "target", "elsewhere"), [("linux-1", "l1", "l2"), ("windows-2022", "w1", "w2")]
)
def test_policy_not_enforced(pods: CalicoLab, node: str, target: str, elsewhere: str) -> None:
    with pods.policy(DENY_ALL):
        with pods.fault("policy-not-enforced", node=node):
            assert pods.reaches("w1b", target)
            assert not pods.reaches("w1b", elsewhere)
        assert not pods.reaches("w1b", target)


def test_policy_late_until_it_is_healed(pods: CalicoLab) -> None:
    with pods.fault("policy-late", node="linux-1", seconds="60"), pods.policy(DENY_ALL):
        assert pods.reaches("w1", "l1")
        assert not pods.reaches("w1", "l2")
    pods.run(pods.settled())
    assert pods.reaches("w1", "l1")
    with pods.policy(DENY_ALL):
        assert not pods.reaches("w1", "l1")


@pytest.mark.parametrize(
    ("node", "source", "beside"), [("linux-1", "l1", "l1b"), ("windows-2022", "w1", "w1b")]
)
def test_source_nat_on_pod_to_pod(pods: CalicoLab, node: str, source: str, beside: str) -> None:
    block = pods.calico.ipam.blocks_of(node)[0]
    tunnel = block.address(1 if node.startswith("w") else 0)
    with pods.fault("snat-pod-to-pod", node=node):
        assert pods.attempt(source, "l2") == tunnel
        assert pods.attempt(source, beside) == pods.calico.nodes[node].address
        assert pods.attempt("l2", source) == pods.addresses["l2"]
    assert pods.attempt(source, "l2") == pods.addresses[source]


@pytest.mark.parametrize("backend", ["l2", "w1b", "w2"])
def test_the_source_of_a_windows_pod_by_cluster_ip_is_what_the_fault_makes_it(
    pods: CalicoLab, backend: str
) -> None:
    service, node, own = ("10.96.1.1", 80), "windows-2022", pods.addresses["w1"]
    source_vip = pods.calico.ipam.blocks_of(node)[0].address(2)
    port = ServicePort(
        name="demo/web:http", protocol="tcp", cluster_ip=service[0], port=service[1], node_port=None,
        backends=(Backend(address=pods.addresses[backend], port=PORT),),
    )  # fmt: skip
    with_dsr = ServiceTable(ports=(port,))
    pods.run(pods.plane.set_services(node, with_dsr))
    assert pods.attempt("w1", backend, by=service) == own
    with pods.fault("snat-despite-dsr"):
        assert pods.attempt("w1", backend, by=service) == source_vip
        assert pods.attempt("w1", backend) == own
    with pods.fault("wrong-snat-address", node=node):
        assert pods.attempt("w1", backend, by=service) == pods.calico.nodes[node].address
    pods.run(pods.plane.set_services(node, replace(with_dsr, snat_local_pods_to=source_vip)))
    assert pods.attempt("w1", backend, by=service) == source_vip
    with pods.fault("wrong-snat-address"):
        assert pods.attempt("w1", backend, by=service) == pods.calico.nodes[node].address
    with pods.fault("dsr-despite-build"):
        assert pods.attempt("w1", backend, by=service) == own
    assert pods.attempt("w1", backend, by=service) == source_vip
    pods.run(pods.plane.set_services(node, ServiceTable(ports=())))


def test_a_windows_pod_gets_a_reserved_address_and_works_with_it(pods: CalicoLab) -> None:
    with pods.fault("reserved-not-reserved", node="windows-2019"):
        block = pods.calico.ipam.blocks_of("windows-2019")[0]
        assert pods.pod("thief", "windows-2019") == block.address(2)
        assert pods.attempt("l1", "thief") == pods.addresses["l1"]
    pods.remove("thief")
    assert pods.pod("honest", "windows-2019") not in {
        block.address(ordinal) for ordinal in (0, 1, 2, 63)
    }
    pods.remove("honest")


def test_rules_of_every_rule_fault_are_taken_by_the_kernel_and_leave_nothing(
    pods: CalicoLab,
) -> None:
    service = {
        "spec": {
            "type": "NodePort",
            "ports": [{"name": "a", "port": 53, "protocol": "UDP"}, {"name": "b", "port": 80}],
        }
    }
    pods.run(
        pods.client.create("services", {"metadata": {"name": "s", "namespace": "demo"}, **service})
    )
    scopes = [*pods.calico.nodes, "fabric"]
    before = [pods.run(pods.plane.fault_rules(scope)) for scope in scopes]
    assert before[-1] == {}
    for name, parameters in (
        ("dns-silent", {}),
        ("service-backend-missing", {"service": "demo/s", "node": "windows-2022"}),
    ):
        with pods.fault(name, **parameters) as identity:
            assert pods.run(pods.injector.evidence(identity))
    assert [pods.run(pods.plane.fault_rules(scope)) for scope in scopes] == before
