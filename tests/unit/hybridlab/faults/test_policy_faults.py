# SPDX-License-Identifier: Apache-2.0
"""Faults of policy: not enforced, or late; on the node that is named."""

from __future__ import annotations

import asyncio

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
