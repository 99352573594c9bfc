# SPDX-License-Identifier: Apache-2.0
"""Faults made by rules: each affects real traffic as documented, is read back from the kernel,
and can be healed."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hybridlab.dataplane.contract import DataplaneError
from hybridlab.dataplane.model import Backend, EndpointProgram, Rule, ServicePort, Tier
from tests.lab.dataplane.conftest import Lab

DENY_ALL = EndpointProgram(ingress=(Tier(name="default", rules=(Rule(action="deny"),)),))


def test_dropping_4789_on_the_underlay_cuts_all_nodes_apart_and_nothing_else(lab: Lab) -> None:
    with lab.fault("fabric", ("f_fwd", "udp dport 4789 drop")):
        assert lab.outcomes("l1b", "l1a", "l2a", "w1a") == ["open", "timed out", "timed out"]
        rules = lab.run(lab.plane.fault_rules("fabric"))
        assert rules == {"test": ["f_fwd: udp dport 4789 drop"]}
    assert lab.run(lab.plane.fault_rules("fabric")) == {}
    assert lab.outcomes("l1b", "l2a", "w1a") == ["open", "open"]


def test_one_direction_of_one_pair(lab: Lab) -> None:
    rule = "ip saddr 10.0.0.11 ip daddr 10.0.0.14 udp dport 4789 drop"
    with lab.fault("fabric", ("f_fwd", rule)):
        assert lab.outcomes("w2a", "l1a", "l2a") == ["timed out", "open"]
        assert lab.outcomes("l1a", "w2a", "w1a") == ["timed out", "open"]


@pytest.mark.parametrize("target", ["l1a", "w1a"])
def test_policy_is_passed_by_and_a_new_program_does_not_mend_it(lab: Lab, target: str) -> None:
    with lab.policy(target, DENY_ALL):
        assert lab.outcomes(target, "l2a") == ["timed out"]
        with lab.fault(lab.pods[target].node, ("f_policy", 'oifname "cali*" accept')):
            assert lab.outcomes(target, "l2a") == ["open"]
            lab.program(target, DENY_ALL)
            assert lab.outcomes(target, "l2a") == ["open"]
        assert lab.outcomes(target, "l2a") == ["timed out"]


def test_source_nat_on_pod_to_pod(lab: Lab) -> None:
    with lab.fault("l1", ("f_snat", 'oifname "vxlan.calico" masquerade')):
        assert lab.tcp("l1a", "l2a").source == "192.168.1.0"
    assert lab.tcp("l1a", "l2a").source == lab.address("l1a")


def test_a_services_traffic_is_led_to_a_dead_backend(lab: Lab) -> None:
    port = ServicePort(
        name="default/web:",
        protocol="tcp",
        cluster_ip="10.96.1.1",
        port=80,
        node_port=None,
        backends=(Backend(address=lab.address("l2a"), port=8080),),
    )
    dead = "ip daddr 10.96.1.1 tcp dport 80 dnat to 192.168.1.50:8080"
    with lab.services(port), lab.listening("l2a") as listeners:
        with lab.fault("l1", ("f_dnat", dead)):
            assert lab.attempt("l1a", "10.96.1.1", 80).outcome == "timed out"
            assert lab.attempt("w1a", "10.96.1.1", 80, listeners["l2a"]).outcome == "open"
        assert lab.attempt("l1a", "10.96.1.1", 80, listeners["l2a"]).outcome == "open"


@pytest.mark.parametrize("ends", [("l1a", "l2a"), ("l2a", "l1a"), ("w1a", "l1a"), ("l1a", "w1a")])
def test_a_slow_node_s_round_trips_take_their_time_and_lose_nothing(
    lab: Lab, ends: tuple[str, str]
) -> None:
    sent = bytes(range(256)) * 1024  # more than one large segment

    def carried(source: str, target: str) -> float:
        """Seconds until a connection stands, over which everything arrives then."""
        with lab.listening(target) as listeners, lab.socket(source) as client:
            begun = time.monotonic()
            client.connect((lab.address(target), 8080))
            seconds = time.monotonic() - begun
            accepted, _ = listeners[target].accept()
            with accepted, ThreadPoolExecutor(1) as pool:
                sending = pool.submit(client.sendall, sent)
                heard = bytearray()
                while len(heard) < len(sent) and (piece := accepted.recv(65536)):
                    heard += piece
                sending.result()
        assert heard == sent
        return seconds

    assert carried(*ends) < 0.1
    lab.run(lab.plane.set_latency("l1", 0.1))
    try:
        assert lab.run(lab.plane.latency("l1")) == 0.1
        assert (
            0.2 <= min(carried(*ends) for _ in range(3)) < 0.35
        )  # of a busy machine the quickest says most
        assert carried("l1b", "l1a") < 0.1
        assert carried("w1a", "l2a") < 0.1
    finally:
        lab.run(lab.plane.set_latency("l1", 0))
    assert lab.run(lab.plane.latency("l1")) == 0
    assert carried(*ends) < 0.1


def test_two_faults_are_healed_one_by_one(lab: Lab) -> None:
    with lab.fault("l1", ("f_raw", "udp dport 53 drop"), ("f_fwd", "tcp dport 9 drop")):
        lab.run(lab.plane.set_fault_rules("l1", "other", [("f_fwd", "tcp dport 7 drop")]))
        assert set(lab.run(lab.plane.fault_rules("l1"))) == {"test", "other"}
    assert lab.run(lab.plane.fault_rules("l1")) == {"other": ["f_fwd: tcp dport 7 drop"]}
    lab.run(lab.plane.clear_fault_rules("l1", "other"))
    assert lab.run(lab.plane.fault_rules("l1")) == {}


def test_a_rule_that_cannot_be_is_refused_and_injects_nothing(lab: Lab) -> None:
    with pytest.raises(DataplaneError, match="no chain f_nowhere; the chains are f_raw"):
        lab.run(lab.plane.set_fault_rules("l1", "bad", [("f_nowhere", "drop")]))
    with pytest.raises(DataplaneError, match="in: add rule ip fault f_fwd tcp dport nonsense drop"):
        lab.run(
            lab.plane.set_fault_rules(
                "l1", "bad", [("f_raw", "drop"), ("f_fwd", "tcp dport nonsense drop")]
            )
        )
    assert lab.run(lab.plane.fault_rules("l1")) == {}
    with pytest.raises(DataplaneError, match="there is no node nowhere; nodes: l1, l2, w1, w2"):
        lab.run(lab.plane.set_fault_rules("nowhere", "bad", []))


def test_a_pod_answers_on_a_second_address_until_it_is_taken_away(lab: Lab) -> None:
    reserved = "192.168.1.130"
    lab.run(lab.plane.add_address("w1a", reserved))
    try:
        with lab.listening("w1a") as listeners:
            assert lab.attempt("l1a", reserved, 8080, listeners["w1a"]).outcome == "open"
    finally:
        lab.run(lab.plane.remove_address("w1a", reserved))
    with lab.listening("w1a"):
        assert lab.attempt("l1a", reserved, 8080).outcome == "timed out"
    with pytest.raises(DataplaneError, match="does not have the address"):
        lab.run(lab.plane.remove_address("w1a", reserved))


def test_dns_is_dropped_or_led_astray_on_one_node(lab: Lab) -> None:
    with (
        lab.socket("l2a", socket.SOCK_DGRAM) as server,
        lab.socket("l1a", socket.SOCK_DGRAM) as client,
    ):
        server.bind(("0.0.0.0", 53))
        with lab.fault("l1", ("f_raw", "udp dport 53 drop")):
            client.sendto(b"lost", (lab.address("l2a"), 53))
            with pytest.raises(TimeoutError):
                server.recv(10)
        client.sendto(b"found", (lab.address("l2a"), 53))
        assert server.recv(10) == b"found"
