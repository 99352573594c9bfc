"""Faults of policy: not enforced, or late; on the node that is named."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hybridlab.faults import policy_lost
from tests.unit.hybridlab.faults.fault_lab import lab


def test_policy_not_enforced_passes_policy_by_on_that_node_only() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("policy-not-enforced", {"node": "linux-2"})
            assert {rule.partition(":")[0] for rule in made.rules("linux-2")} == {"f_policy"}
            assert all(rule.endswith("accept") for rule in made.rules("linux-2"))
            assert set(made.dataplane.faults) == {"linux-2"}
            await made.injector.inject(
                "policy-not-enforced", {"node": "linux-1", "only": "tcp_dport_443"}
            )
            assert all(rule.endswith(" tcp dport 443 accept") for rule in made.rules("linux-1"))

    asyncio.run(run())


def test_answers_of_a_protocol_are_held_to_policy_on_their_way_to_a_pod_and_from_it() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject(
                "answers-under-policy", {"node": "linux-2", "protocol": "udp"}
            )
            to, back = made.rules("linux-2")
            assert to.endswith("meta l4proto udp ct direction reply jump to-wl")
            assert back.endswith("meta l4proto udp ct direction reply jump from-wl")
            assert (" oifname " in to, " iifname " in back) == (True, True)

    asyncio.run(run())


POLICIES = "networkpolicies.networking.k8s.io"


DENY = {"metadata": {"name": "deny", "namespace": "demo"}, "spec": {"podSelector": {}}}


def test_policy_late_holds_back_that_node_and_healing_applies_what_waits() -> None:
    async def run() -> None:
        async with lab() as made:
            b = made.calico
            late, _ = await b.pod("late", "linux-1")
            prompt, _ = await b.pod("prompt", "linux-2")
            await b.settled()
            identity = await made.injector.inject(
                "policy-late", {"node": "linux-1", "seconds": "600"}
            )
            await b.client.create(POLICIES, DENY)
            await b.until(lambda: b.program(prompt).ingress)
            await b.settled()
            assert b.program(late).ingress == ()
            await made.injector.heal(identity)
            await b.until(lambda: b.program(late).ingress)

    asyncio.run(run())


def test_of_two_delays_the_longer_counts_and_healing_one_leaves_the_other() -> None:
    async def run() -> None:
        async with lab() as made:
            felix = made.calico.calico.felixes["linux-1"]
            short = await made.injector.inject("policy-late", {"seconds": "2"})
            await made.injector.inject("policy-late", {"node": "linux-1", "seconds": "7"})
            assert felix.queue.delay == 7
            await made.injector.heal(short)
            assert felix.queue.delay == 7
            assert made.calico.calico.felixes["linux-2"].queue.delay == 0
            await made.injector.heal_all()
            assert felix.queue.delay == 0

    asyncio.run(run())


NOBODYS = {"metadata": {"name": "nobodys", "namespace": "demo"}}
ABOUT_NOBODY = NOBODYS | {"spec": {"podSelector": {"matchLabels": {"app": "nobody"}}}}
CALICOS = "networkpolicies.projectcalico.org"
OF_CALICO = {
    "metadata": {"name": "beside", "namespace": "demo"},
    "spec": {"selector": "app == 'nobody'"},
}
NETWORKS = {
    "metadata": {"name": "networks", "namespace": "demo"},
    "spec": {"nets": ["192.0.2.0/24"]},
}


@pytest.mark.parametrize(
    ("after", "resource", "made"),
    [
        ("account-labels", "serviceaccounts", NOBODYS),
        ("policy-labels", POLICIES, None),
        ("calico-policy-labels", CALICOS, OF_CALICO),
        ("pod-annotations", "pods", None),
        ("account-made", "serviceaccounts", NOBODYS),
        ("policy-beside", POLICIES, ABOUT_NOBODY),
        ("calico-policy-beside", CALICOS, OF_CALICO),
        ("network-set-made", "networksets.projectcalico.org", NETWORKS),
    ],
)
@pytest.mark.parametrize("node", ["linux-1", "windows-2022"])
def test_policy_is_lost_on_a_node_after_what_is_no_policys_business(
    after: str,
    resource: str,
    made: dict[str, Any] | None,
    node: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(policy_lost, "NEW", 0.0)

    async def run() -> None:
        async with lab() as faulty:
            b = faulty.calico
            lost, attached = await b.pod("lost", node)
            kept, _ = await b.pod("kept", "linux-2")
            await b.client.patch(
                "pods",
                "lost",
                {"status": {"podIP": attached.address}},
                "demo",
                subresource="status",
            )
            touched = made is None or after.endswith("labels")
            if made and touched:
                await b.client.create(resource, made)
            await faulty.injector.inject("policy-lost", {"node": node, "after": after})
            await b.client.create(POLICIES, DENY)
            await b.until(lambda: b.denies(lost) and b.denies(kept))
            await b.settled()
            field, name = after.rpartition("-")[2], made["metadata"]["name"] if made else "deny"
            if made is None or touched:
                what = {"metadata": {field: {"marked": "yes"}}}
                await b.client.patch(resource, "lost" if resource == "pods" else name, what, "demo")
            else:
                await b.client.create(resource, made)
            await b.until(lambda: not b.denies(lost))
            assert b.denies(kept)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("narrow", "of_these"),
    [
        ({}, ""),
        ({"at": "linux"}, "ip daddr {{ {before}, 192.168.9.1, 192.168.9.2, 192.168.9.7 }} "),
        ({"at": "windows"}, None),
        ({"port": "8080", "protocol": "tcp"}, "meta l4proto tcp th dport 8080 "),
    ],
)
def test_a_new_pod_loses_its_policy_for_one_way_once_it_has_an_address(
    narrow: dict[str, str], of_these: str | None
) -> None:
    async def run() -> None:
        async with lab() as made:
            b, lost = (
                made.calico,
                {"node": "linux-1", "after": "pod-replaced", "of": "egress", **narrow},
            )
            _, before = await b.pod("before", "linux-1", app="web")
            await b.client.create(POLICIES, DENY)
            await made.injector.inject("policy-lost", lost)
            spec = {"nodeName": "linux-1", "containers": [{"name": "c", "image": "busybox"}]}
            named = {"name": "after", "namespace": "demo", "labels": {"app": "web"}}
            pod = await b.client.create("pods", {"metadata": named, "spec": spec})
            await b.until(lambda: b.program(pod) and b.program(pod).ingress)
            assert not made.rules("linux-1"), "it has no address yet"
            address = {
                "metadata": {"annotations": {"cni.projectcalico.org/podIP": "192.168.9.7/32"}}
            }
            await b.client.patch("pods", "after", address, "demo")
            await b.until(lambda: made.dataplane.faults)
            what = None if of_these is None else of_these.format(before=before.address)
            assert made.rules("linux-1") == (
                [] if what is None else [f"f_policy: ip saddr 192.168.9.7 {what}accept"]
            )

    asyncio.run(run())
