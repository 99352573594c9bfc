# SPDX-License-Identifier: Apache-2.0
"""Policies and their changes reach the data plane of the nodes that have their pods, and no others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.hybridlab.calico.cluster_harness import DENY, POLICIES, harness

GLOBAL_POLICIES = "globalnetworkpolicies.projectcalico.org"


def test_a_policy_reaches_every_node_that_has_a_pod_of_it_and_no_other() -> None:
    async def run() -> None:
        async with harness() as b:
            pod, _ = await b.pod("l", "linux-1")
            far, _ = await b.pod("w", "windows-2022")
            other, _ = await b.pod("o", "linux-2", "other")
            await b.settled()
            b.dataplane.updates.clear()
            await b.client.create(POLICIES, DENY)
            await b.settled()
            assert b.program(pod).ingress[0].end == "deny"
            assert b.denies(far)
            assert b.program(other).ingress == ()
            assert sorted(node for node, _ in b.dataplane.updates) == ["linux-1", "windows-2022"]

    asyncio.run(run())


def test_without_its_felix_a_node_keeps_the_old_policy_and_catches_up_when_it_is_back() -> None:
    async def run() -> None:
        async with harness() as b:
            pods = [(await b.pod("l", "linux-1"))[0], (await b.pod("m", "linux-2"))[0]]
            await b.settled()
            await b.calico.felix_stopped("linux-1")
            await b.client.create(POLICIES, DENY)
            await b.settled()
            assert b.program(pods[0]).ingress == ()
            assert b.program(pods[1]).ingress[0].end == "deny"
            b.calico.felix_started("linux-1")
            await b.settled()
            assert b.program(pods[0]).ingress[0].end == "deny"

    asyncio.run(run())


@pytest.mark.parametrize("node", ["linux-1", "windows-2022"])
def test_a_forgetful_felix_keeps_old_rules_until_they_change_again(node: str) -> None:
    async def run() -> None:
        async with harness() as b:
            pod, _ = await b.pod("a", node)
            await b.settled()
            b.calico.felixes[node].faults.forgetful["a-fault"] = True
            await b.calico.felix_stopped(node)
            await b.client.create(POLICIES, DENY)
            new, _ = await b.pod("b", node)
            b.calico.felix_started(node)
            await b.settled()
            assert not b.denies(pod)
            assert b.denies(new)
            await b.client.delete(POLICIES, "deny", "demo")
            await b.client.create(POLICIES, DENY)
            await b.settled()
            assert b.denies(pod)

    asyncio.run(run())


def test_a_starting_felix_programs_everything_anew_and_removes_what_it_no_longer_needs() -> None:
    async def run() -> None:
        async with harness() as b:
            pod, _ = await b.pod("l", "linux-1", app="web")
            allow = {"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}
            await b.client.create(
                POLICIES, {**DENY, "spec": {"podSelector": {}, "ingress": [allow]}}
            )
            await b.settled()
            assert len(b.dataplane.sets["linux-1"]) == 1
            await b.calico.felix_stopped("linux-1")
            await b.client.delete(POLICIES, "deny", "demo")
            b.dataplane.updates.clear()
            b.calico.felix_started("linux-1")
            await b.settled()
            assert b.dataplane.sets["linux-1"] == {}
            assert b.program(pod).ingress == ()
            assert [
                pod["metadata"]["uid"] in update.endpoints for _, update in b.dataplane.updates
            ] == [True]

    asyncio.run(run())


def test_a_new_member_changes_the_set_and_no_program() -> None:
    async def run() -> None:
        async with harness() as b:
            await b.pod("l", "linux-1", app="web")
            allow = {"from": [{"podSelector": {"matchLabels": {"app": "client"}}}]}
            await b.client.create(
                POLICIES, {**DENY, "spec": {"podSelector": {}, "ingress": [allow]}}
            )
            await b.settled()
            b.dataplane.updates.clear()
            _, attachment = await b.pod("c", "linux-2", "demo", app="client")
            await b.settled()
            updates = [update for node, update in b.dataplane.updates if node == "linux-1"]
            assert [update.endpoints for update in updates] == [{}]
            assert list(updates[0].sets.values()) == [(attachment.address,)]
            b.dataplane.updates.clear()
            await b.client.patch(
                "pods", "c", {"metadata": {"labels": {"irrelevant": "yes"}}}, "demo"
            )
            await b.settled()
            assert b.dataplane.updates == []
            await b.client.patch("pods", "c", {"metadata": {"labels": {"app": "no-more"}}}, "demo")
            await b.settled()
            assert list(b.dataplane.sets["linux-1"].values()) == [()]

    asyncio.run(run())


def test_an_edit_of_a_rule_alone_reaches_the_pods_that_the_policy_already_selects() -> None:
    async def run() -> None:
        async with harness() as b:
            pod, _ = await b.pod("l", "linux-1")
            ingress = [{"ports": [{"port": 80}]}]
            await b.client.create(
                POLICIES, {**DENY, "spec": {"podSelector": {}, "ingress": ingress}}
            )
            await b.settled()
            assert b.program(pod).ingress[0].rules[0].match.dst_ports == ((80, 80),)
            change = {"spec": {"ingress": [{"ports": [{"port": 81}]}]}}
            await b.client.patch(POLICIES, "deny", change, "demo")
            await b.settled()
            assert b.program(pod).ingress[0].rules[0].match.dst_ports == ((81, 81),)

    asyncio.run(run())


def test_a_namespaces_labels_and_a_pods_end_count() -> None:
    async def run() -> None:
        async with harness() as b:
            await b.pod("l", "linux-1")
            allow = {"from": [{"namespaceSelector": {"matchLabels": {"trusted": "yes"}}}]}
            await b.client.create(
                POLICIES, {**DENY, "spec": {"podSelector": {}, "ingress": [allow]}}
            )
            _, attachment = await b.pod("o", "linux-2", "other")
            await b.settled()
            assert list(b.dataplane.sets["linux-1"].values()) == [()]
            await b.client.patch(
                "namespaces", "other", {"metadata": {"labels": {"trusted": "yes"}}}
            )
            await b.settled()
            assert list(b.dataplane.sets["linux-1"].values()) == [(attachment.address,)]
            await b.client.patch(
                "pods", "o", {"status": {"phase": "Succeeded"}}, "other", subresource="status"
            )
            await b.settled()
            assert list(b.dataplane.sets["linux-1"].values()) == [()]

    asyncio.run(run())


def test_after_a_refusal_everything_is_programmed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybridlab.calico.felix_queue.RETRY_SECONDS", 0.01)

    async def run() -> None:
        async with harness() as b:
            pod, _ = await b.pod("l", "linux-1")
            await b.settled()
            b.dataplane.refuse = "the kernel says no"
            await b.client.create(POLICIES, DENY)
            await b.until(lambda: any("the kernel says no" in line for _, line in b.logged))
            b.dataplane.refuse = ""
            await b.until(lambda: b.program(pod).ingress)

    asyncio.run(run())


def test_a_policy_that_cannot_be_read_is_logged_and_left_out() -> None:
    async def run() -> None:
        async with harness() as b:
            pod, _ = await b.pod("l", "linux-1")
            wrong = {"metadata": {"name": "p", "namespace": "demo"}, "spec": {"selector": "a ! b"}}
            await b.client.create("networkpolicies.projectcalico.org", wrong)
            await b.until(
                lambda: any(
                    "demo/p is not applied: selector 'a ! b'" in line for _, line in b.logged
                )
            )
            await b.settled()
            assert b.program(pod).ingress == ()

    asyncio.run(run())


def test_the_profiles_programming_delay_holds_policy_back_on_that_system_only() -> None:
    async def run() -> None:
        async with harness("timing.windows_policy_delay_ms=200") as b:
            windows, _ = await b.pod("w", "windows-2022")
            await b.until(lambda: b.program(windows))
            linux, _ = await b.pod("l", "linux-1")
            await b.client.create(POLICIES, DENY)
            await b.until(lambda: b.program(linux).ingress)
            assert not b.denies(windows)
            await b.until(lambda: b.denies(windows))

    asyncio.run(run())


SUBJECT = {"namespaces": {"matchLabels": {"kubernetes.io/metadata.name": "demo"}}}
EVERYBODY: list[dict[str, Any]] = [{"namespaces": {}}]


@pytest.mark.parametrize(
    ("version", "resource", "spec"),
    [
        (
            "v3.31.7",
            "adminnetworkpolicies",
            {"priority": 1, "ingress": [{"action": "Deny", "from": EVERYBODY}]},
        ),
        (
            "v3.31.7",
            "baselineadminnetworkpolicies",
            {"ingress": [{"action": "Deny", "from": EVERYBODY}]},
        ),
        (
            "v3.32.1",
            "clusternetworkpolicies",
            {"tier": "Admin", "priority": 1, "ingress": [{"action": "Deny", "from": EVERYBODY}]},
        ),
    ],
)
def test_cluster_wide_policies_of_kubernetes_reach_both_systems(
    version: Any, resource: Any, spec: Any
) -> None:
    async def run() -> None:
        async with harness(f"calico.version={version}") as b:
            linux, _ = await b.pod("l", "linux-1")
            windows, _ = await b.pod("w", "windows-2022")
            body = {"metadata": {"name": "default"}, "spec": {"subject": SUBJECT, **spec}}
            await b.client.create(f"{resource}.policy.networking.k8s.io", body)
            await b.until(lambda: [tier.end for tier in b.program(linux).ingress] == ["pass"])
            await b.until(
                lambda: any(a.action == "Block" and a.remote for a in b.program(windows).acls)
            )
            await b.client.delete(f"{resource}.policy.networking.k8s.io", "default")
            await b.until(lambda: not b.program(linux).ingress)

    asyncio.run(run())


def tcp_80(name: str, tier: str, action: str) -> dict[str, Any]:
    rule = {"action": action, "protocol": "TCP", "destination": {"ports": [80]}}
    spec = {"tier": tier, "selector": "app == 'w'", "types": ["Ingress"], "ingress": [rule]}
    return {"metadata": {"name": name}, "spec": spec}


def test_a_panic_leaves_what_was_programmed_and_ends_with_the_policies() -> None:
    """Felix panics in a loop; the pod keeps its list, and gets a new one when the policies are gone."""

    async def run() -> None:
        async with harness(profile="v3.31-as-shipped") as b:
            pod, _ = await b.pod("w", "windows-2022", app="w")
            await b.client.create(
                "tiers.projectcalico.org", {"metadata": {"name": "first"}, "spec": {"order": 1}}
            )
            await b.client.create(GLOBAL_POLICIES, tcp_80("first.p", "first", "Pass"))
            await b.until(lambda: any(acl.local_ports for acl in b.program(pod).acls))
            before = b.program(pod)
            await b.client.create(GLOBAL_POLICIES, tcp_80("p", "default", "Allow"))
            await b.until(
                lambda: any("bitset said no end of range" in line for _, line in b.logged)
            )
            await b.settled()
            assert b.program(pod) == before
            await b.client.delete(GLOBAL_POLICIES, "first.p")
            await b.until(lambda: any("policy-default.p" in acl.id for acl in b.program(pod).acls))

    asyncio.run(run())
