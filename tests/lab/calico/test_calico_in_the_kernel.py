# SPDX-License-Identifier: Apache-2.0
"""Packets are treated as Felix, IPAM and the CNI plugin have programmed."""

from __future__ import annotations

import itertools

import pytest

from tests.lab.calico.conftest import CalicoLab

CALICO = "networkpolicies.projectcalico.org"
ALL = ("l1", "l2", "w1", "w2", "l1b", "w1b")


def test_every_pod_reaches_every_other_and_shows_its_own_address(pods: CalicoLab) -> None:
    for source, target in itertools.permutations(ALL, 2):
        assert pods.attempt(source, target) == pods.addresses[source], (source, target)


@pytest.mark.parametrize("target", ["l1", "w1"])
def test_a_policy_lets_in_who_it_names_and_silently_drops_the_rest(
    pods: CalicoLab, target: str
) -> None:
    allowed = {"from": [{"podSelector": {"matchLabels": {"app": "l2"}}}], "ports": [{"port": 8080}]}
    with pods.policy({"podSelector": {"matchLabels": {"app": target}}, "ingress": [allowed]}):
        assert pods.reaches("l2", target)
        assert not pods.reaches("w2", target)
        assert not pods.reaches("l2", target, 8081)
        assert pods.reaches(target, "w2")
        pods.pod("late", "linux-3", app="l2")
        try:
            assert pods.reaches("late", target)
        finally:
            pods.remove("late")
    assert pods.reaches("w2", target)


@pytest.mark.parametrize("source", ["l1", "w1"])
def test_egress_and_order_of_calico_policies(pods: CalicoLab, source: str) -> None:
    rules = [
        {"action": "Deny", "destination": {"selector": "app == 'l2'"}},
        {
            "action": "Allow",
            "protocol": "TCP",
            "destination": {"nets": ["192.168.0.0/16"], "ports": ["8080:8090"]},
        },
    ]
    with pods.policy(
        {"selector": f"app == '{source}'", "types": ["Egress"], "egress": rules}, CALICO
    ):
        assert not pods.reaches(source, "l2")
        assert pods.reaches(source, "w2")
        assert not pods.reaches(source, "w2", 9000)


@pytest.mark.parametrize(("target", "skipped"), [("l1", False), ("w1", True)])
def test_a_negated_rule_holds_on_linux_and_is_not_there_on_windows(
    pods: CalicoLab, target: str, skipped: bool
) -> None:
    deny = {"action": "Deny", "source": {"notNets": [f"{pods.addresses['l2']}/32"]}}
    spec = {
        "selector": f"app == '{target}'",
        "types": ["Ingress"],
        "ingress": [deny, {"action": "Allow"}],
    }
    with pods.policy(spec, CALICO):
        assert pods.reaches("l2", target)
        assert pods.reaches("w2", target) is skipped
    folded = {"action": "Deny", "source": {"notSelector": "app == 'l2'"}}
    with pods.policy({**spec, "ingress": [folded, {"action": "Allow"}]}, CALICO):
        assert pods.reaches("l2", target)
        assert not pods.reaches("w2", target), (
            "the namespace selects, so a notSelector is no negation"
        )
    block = {"ipBlock": {"cidr": "0.0.0.0/0", "except": [f"{pods.addresses['w2']}/32"]}}
    with pods.policy(
        {"podSelector": {"matchLabels": {"app": target}}, "ingress": [{"from": [block]}]}
    ):
        assert pods.reaches("l2", target) is not skipped
        assert not pods.reaches("w2", target)
        if skipped:
            uid = pods.pods[target]["metadata"]["uid"]
            listed = pods.calico.felixes["windows-2022"].acls[uid]
            asked = [(e["Action"], e["RuleType"]) for e in listed if e["Direction"] == "In"]
            assert asked == [("Allow", "Switch"), ("Block", "Switch"), ("Allow", "Host")], (
                "the host, the end of the tier"
            )


@pytest.mark.parametrize(("target", "node"), [("l1", "linux-1"), ("w1", "windows-2022")])
def test_without_its_felix_a_node_gets_no_new_policy_until_it_is_back(
    pods: CalicoLab, target: str, node: str
) -> None:
    pods.stop_felix(node)
    try:
        with pods.policy({"podSelector": {}}):
            assert pods.reaches("w2", target)
            assert not pods.reaches("w2", "l2")
            pods.start_felix(node)
            assert not pods.reaches("w2", target)
    finally:
        pods.start_felix(node)
    assert pods.reaches("w2", target)


def test_a_new_pod_is_closed_until_felix_knows_it_and_on_windows_only_for_ingress(
    pods: CalicoLab,
) -> None:
    for node in ("linux-3", "windows-2019"):
        pods.stop_felix(node)
    pods.pod("nl", "linux-3")
    pods.pod("nw", "windows-2019")
    try:
        assert not pods.reaches("l1", "nl")
        assert not pods.reaches("nl", "l1")
        assert not pods.reaches("l1", "nw")
        assert pods.reaches("nw", "l1")
        for node in ("linux-3", "windows-2019"):
            pods.start_felix(node)
        assert pods.reaches("l1", "nl")
        assert pods.reaches("nl", "l1")
        assert pods.reaches("l1", "nw")
    finally:
        for node in ("linux-3", "windows-2019"):
            pods.start_felix(node)
        pods.remove("nl")
        pods.remove("nw")
