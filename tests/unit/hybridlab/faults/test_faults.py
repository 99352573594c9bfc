"""Every fault: put in place, read back from the true state, and healed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hybridlab.faults.errors import BadFault
from hybridlab.networks.registry import fault_types
from tests.unit.hybridlab.faults.fault_lab import lab

NAMES = {
    "mtu-black-hole",
    "fragments-dropped",
    "flows-dropped",
    "node-datagrams-dropped",
    "outgoing-not-translated",
    "route-missing",
    "forwarding-missing",
    "ipip-routes-left",
    "forwarding-wrong",
    "vxlan-differs",
    "udp4789-dropped",
    "policy-not-enforced",
    "policy-misread",
    "denial-wears-off",
    "first-syns-denied",
    "policy-hits-node",
    "policy-lost",
    "policy-edit-ignored",
    "policy-late",
    "no-reset-recovery",
    "rst-storm-linux",
    "acl-not-replaced",
    "acl-always-replaced",
    "felix-never-restarts",
    "felix-keeps-old-rules",
    "path-slow",
    "felix-crash-loops",
    "open-before-policy",
    "dns-wrong",
    "dns-silent",
    "dns-stale",
    "dns-slow",
    "dns-pod-silent",
    "search-list-wrong",
    "backends-stale",
    "last-backend-stays-away",
    "udp-flows-stay",
    "one-backend",
    "unready-backends-used",
    "hairpin-dropped",
    "backends-of-another",
    "node-ports-missing",
    "udp-node-ports-missing",
    "target-port-ignored",
    "pods-swapped",
    "service-backend-missing",
    "snat-pod-to-pod",
    "snat-despite-dsr",
    "wrong-snat-address",
    "dsr-despite-build",
    "ping-natted",
    "ping-dropped",
    "reserved-not-reserved",
    "vni-followed-live",
    "vsid-differs",
    "procedure-does-not-heal",
    "services-lost-with-network",
    "hns-fails",
    "policy-refuses",
    "exec-hangs",
    "exec-empty-output",
    "exec-half-output",
    "exec-loses-status",
    "exec-cut",
    "exec-missing-binary",
    "exec-wrong-binary",
    "exec-killed",
    "api-429",
    "api-500",
    "api-unreachable",
    "watch-silent",
    "kubelet-idle",
    "node-dead",
    "image-pull-stalls",
    "kubelet-probes-fail",
    "exec-dial-fails",
    "exec-start-times-out",
    "pod-restarts",
    "cni-token-old",
}
SAMPLES = {
    "mtu-black-hole": {},
    "fragments-dropped": {"node": "windows-2022"},
    "flows-dropped": {"node": "linux-1", "every": "3"},
    "node-datagrams-dropped": {"node": "linux-1"},
    "outgoing-not-translated": {},
    "route-missing": {"node": "windows-2022"},
    "forwarding-missing": {"node": "linux-1", "entry": "neighbour"},
    "ipip-routes-left": {"node": "linux-1"},
    "forwarding-wrong": {"node": "windows-2022", "to": "linux-1"},
    "vxlan-differs": {"node": "linux-1", "vni": "4999"},
    "udp4789-dropped": {},
    "policy-not-enforced": {"node": "windows-2022"},
    "policy-late": {"seconds": "5"},
    "denial-wears-off": {"node": "linux-1", "seconds": "5"},
    "first-syns-denied": {"node": "windows-2022"},
    "policy-misread": {"as": "any-port", "node": "linux-1"},
    "policy-hits-node": {"node": "windows-2022"},
    "policy-lost": {"node": "windows-2022", "after": "service-made"},
    "policy-edit-ignored": {"node": "linux-1", "field": "order"},
    "no-reset-recovery": {},
    "rst-storm-linux": {"node": "linux-1"},
    "acl-not-replaced": {"node": "windows-2022"},
    "acl-always-replaced": {},
    "felix-never-restarts": {},
    "felix-keeps-old-rules": {"node": "linux-1"},
    "path-slow": {"node": "linux-1"},
    "felix-crash-loops": {"node": "linux-1"},
    "open-before-policy": {"seconds": "5"},
    "dns-wrong": {},
    "dns-silent": {"node": "linux-1"},
    "dns-stale": {},
    "dns-slow": {"node": "linux-1", "seconds": "2"},
    "dns-pod-silent": {"node": "linux-1", "pod": "2"},
    "search-list-wrong": {"node": "linux-1", "list": "own-only"},
    "backends-stale": {"node": "linux-1"},
    "last-backend-stays-away": {"node": "windows-2022"},
    "udp-flows-stay": {"node": "linux-2"},
    "one-backend": {},
    "unready-backends-used": {},
    "hairpin-dropped": {"node": "linux-1"},
    "backends-of-another": {},
    "node-ports-missing": {"node": "linux-1"},
    "udp-node-ports-missing": {"node": "linux-1"},
    "target-port-ignored": {"node": "windows-2022"},
    "kubelet-probes-fail": {"node": "windows-2022"},
    "pods-swapped": {"node": "windows-2022"},
    "service-backend-missing": {"service": "demo/web", "node": "linux-1"},
    "snat-pod-to-pod": {"node": "linux-1"},
    "snat-despite-dsr": {},
    "wrong-snat-address": {"node": "windows-2022"},
    "dsr-despite-build": {"node": "windows-2022"},
    "ping-natted": {"node": "windows-2022"},
    "ping-dropped": {},
    "reserved-not-reserved": {"node": "windows-2022"},
    "vni-followed-live": {},
    "vsid-differs": {"node": "windows-2022"},
    "procedure-does-not-heal": {"node": "windows-2019"},
    "services-lost-with-network": {"node": "windows-2022"},
    "hns-fails": {"answer": "silent"},
    "policy-refuses": {},
    "exec-hangs": {"namespace": "demo", "pod": "a"},
    "exec-empty-output": {"namespace": "demo", "pod": "b"},
    "exec-half-output": {"namespace": "demo", "pod": "c"},
    "exec-loses-status": {"namespace": "demo", "pod": "d", "first": "2"},
    "exec-cut": {"namespace": "demo", "pod": "e"},
    "exec-missing-binary": {"node": "linux-1", "pod": "f"},
    "exec-wrong-binary": {"node": "linux-1", "pod": "g", "program": "hostname"},
    "exec-killed": {"namespace": "demo", "pod": "h"},
    "api-429": {"seconds": "30"},
    "api-unreachable": {"seconds": "30"},
    "api-500": {"seconds": "30", "namespace": "demo", "first": "3"},
    "watch-silent": {"first": "2"},
    "kubelet-idle": {"node": "linux-1"},
    "node-dead": {"node": "windows-2022"},
    "image-pull-stalls": {},
    "exec-dial-fails": {"namespace": "demo", "pod": "i"},
    "exec-start-times-out": {"namespace": "demo", "pod": "j"},
    "pod-restarts": {"pod": "demo/web-1"},
    "cni-token-old": {"node": "windows-2022"},
}


WITHOUT_AN_OVERLAY = {
    "bgp-stopped": {"node": "linux-1"},
    "bgp-peer-down": {"node": "linux-1", "to": "windows-2022"},
    "confd-silent": {"node": "windows-2022"},
    "block-not-announced": {"node": "windows-2022"},
    "next-hop-astray": {"node": "linux-1"},
    "announces-more": {"node": "windows-2022"},
    "node-status-filled": {"node": "windows-2022"},
    "source-check-on": {},
    "host-endpoint-missing": {},
}
"""Samples of faults that there are on the profile bgp alone."""


def test_every_fault_has_a_sample() -> None:
    assert set(fault_types()) == NAMES | set(WITHOUT_AN_OVERLAY)
    assert set(SAMPLES) == NAMES


@pytest.mark.parametrize("name", sorted(set(WITHOUT_AN_OVERLAY) - {"host-endpoint-missing"}))
def test_a_fault_of_bgp_is_refused_where_nobody_speaks_it(name: str) -> None:
    async def run() -> None:
        async with lab() as made:
            with pytest.raises(BadFault, match="the lab's nodes do not speak BGP"):
                await made.injector.inject(name, WITHOUT_AN_OVERLAY[name])

    asyncio.run(run())


@pytest.mark.parametrize("name", sorted(NAMES | set(WITHOUT_AN_OVERLAY)))
def test_each_is_in_effect_after_its_injection_and_not_after_its_healing(name: Any) -> None:
    async def run() -> None:
        async with lab("bgp" if name in WITHOUT_AN_OVERLAY else "default") as made:
            identity = await made.injector.inject(name, (SAMPLES | WITHOUT_AN_OVERLAY)[name])
            assert await made.injector.evidence(identity)
            assert [(item["id"], item["fault"]) for item in made.injector.active()] == [(identity, name)]
            fault = made.injector._active[identity].fault
            await made.injector.heal(identity)
            assert made.injector.active() == []
            assert not await fault.verified()
            assert all(not by_name for by_name in made.dataplane.faults.values())

    asyncio.run(run())


@pytest.mark.parametrize(
    ("parameters", "rules"),
    [
        ({}, ["f_fwd: udp dport 4789 drop"]),
        (
            {"scope": "node", "node": "linux-1"},
            ["f_fwd: ip saddr 10.0.0.11 udp dport 4789 drop", "f_fwd: ip daddr 10.0.0.11 udp dport 4789 drop"],
        ),
        (
            {"scope": "pair", "node": "linux-1", "peer": "windows-2022"},
            [
                "f_fwd: ip saddr 10.0.0.11 ip daddr 10.0.0.14 udp dport 4789 drop",
                "f_fwd: ip saddr 10.0.0.14 ip daddr 10.0.0.11 udp dport 4789 drop",
            ],
        ),
    ],
)
def test_udp4789_is_dropped_in_the_underlay_in_its_scope(parameters: Any, rules: Any) -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("udp4789-dropped", parameters)
            assert made.rules("fabric") == rules
            assert set(made.dataplane.faults) == {"fabric"}

    asyncio.run(run())


def test_an_mtu_black_hole_s_parameter_is_the_largest_packet_that_passes() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("mtu-black-hole", {"bytes": "1200"})
            assert made.rules("fabric") == ["f_fwd: udp dport 4789 ip length > 1200 drop"]
            listed = {item["name"]: item["parameters"] for item in made.injector.catalogue(fault_types().values())}
            assert listed["mtu-black-hole"]["bytes"].startswith("largest outer packet that passes")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("way", "ends"), [("out", ["saddr"]), ("in", ["daddr"]), ("both", ["saddr", "daddr"])], ids=["out", "in", "both"]
)
def test_fragments_are_dropped_on_the_way_that_is_asked_for(way: str, ends: list[str]) -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("fragments-dropped", {"node": "linux-1", "way": way})
            rules = made.rules("fabric")
            assert [rule.split()[2] for rule in rules] == ends
            assert all("10.0.0.11 udp dport 4789 @th,288,16 & 0x3fff != 0 drop" in rule for rule in rules)

    asyncio.run(run())


def test_flows_are_dropped_at_their_node_alone_by_what_their_first_packet_had() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("flows-dropped", {"node": "windows-2022"})
            rules = made.rules("windows-2022")
            assert set(made.dataplane.faults) == {"windows-2022"}
            assert [rule.partition(" ")[0] for rule in rules] == ["f_fwd:", "f_fwd:", "f_in:", "f_post:"]
            flow = "ct original ip saddr . ct original ip daddr . ct original proto-src . ct original proto-dst"
            assert all(f"{{ tcp, udp }} jhash {flow} mod 5 seed 0xf10 == 0" in rule for rule in rules)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "parameters", "wrong"),
    [
        ("route-missing", {}, {"lacks": ("route",)}),
        ("forwarding-missing", {}, {"lacks": ("forwarding",)}),
        ("forwarding-missing", {"entry": "neighbour"}, {"lacks": ("neighbour",)}),
        ("forwarding-wrong", {}, {"node_address": "192.0.2.1"}),
    ],
)
def test_ways_to_one_node_are_laid_wrongly_and_mended(name: Any, parameters: Any, wrong: Any) -> None:
    async def run() -> None:
        async with lab() as made:
            await made.calico.calico.felixes["linux-1"].routing.done()
            before = made.dataplane.routes["linux-1"]
            to = next(block for block in before.remote_blocks if block.node_address == "10.0.0.14")
            identity = await made.injector.inject(name, {"node": "linux-1", "to": "windows-2022", **parameters})
            changed = {block.cidr: block for block in made.dataplane.routes["linux-1"].remote_blocks}
            assert changed == {block.cidr: block for block in before.remote_blocks} | {to.cidr: replace(to, **wrong)}
            assert to.cidr in (await made.injector.evidence(identity))[0]
            await made.injector.heal(identity)
            assert made.dataplane.routes["linux-1"] == before

    asyncio.run(run())


def test_a_device_that_differs_is_made_anew_and_its_routes_with_it() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.calico.calico.felixes["linux-1"].routing.done()
            before = made.dataplane.tunnels["linux-1"]
            assert before is not None
            identity = await made.injector.inject("vxlan-differs", {"node": "linux-1", "port": "4790"})
            assert made.dataplane.tunnels["linux-1"] == replace(before, port=4790)
            assert made.dataplane.routes["linux-1"].remote_blocks
            await made.injector.heal(identity)
            assert made.dataplane.tunnels["linux-1"] == before

    asyncio.run(run())


def test_policy_not_enforced_passes_policy_by_on_that_node_only() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("policy-not-enforced", {"node": "linux-2"})
            assert {rule.partition(":")[0] for rule in made.rules("linux-2")} == {"f_policy"}
            assert all(rule.endswith("accept") for rule in made.rules("linux-2"))
            assert set(made.dataplane.faults) == {"linux-2"}

    asyncio.run(run())


def test_a_services_cluster_ip_and_node_port_do_not_answer_on_that_node() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("service-backend-missing", SAMPLES["service-backend-missing"])
            assert "f_raw: ip daddr 10.96.0.20 tcp dport 80 drop" in made.rules("linux-1")
            assert "f_out: fib daddr type local tcp dport 30080 drop" in made.rules("linux-1")
            assert len(made.rules("linux-1")) == 4

    asyncio.run(run())


def test_snat_is_for_the_nodes_own_pods_only() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("snat-pod-to-pod", {"node": "linux-1"})
            block = made.calico.calico.ipam.blocks_of("linux-1")[0].cidr
            assert made.rules("linux-1") == [
                f'f_snat: oifname "vxlan.calico" ip saddr {{ {block} }} masquerade',
                f'f_snat: oifname "cali*" ip saddr {{ {block} }} snat to 10.0.0.11',
            ]

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
            identity = await made.injector.inject("policy-late", {"node": "linux-1", "seconds": "600"})
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


def test_unreserved_addresses_go_to_pods_and_the_block_says_so() -> None:
    async def run() -> None:
        async with lab() as made:
            b = made.calico
            identity = await made.injector.inject("reserved-not-reserved", {"node": "windows-2022"})
            pod, attachment = await b.pod("thief", "windows-2022")
            block = b.calico.ipam.blocks_of("windows-2022")[0]
            assert attachment.address == block.address(2)
            await made.injector.heal(identity)
            name = str(block.cidr).replace(".", "-").replace("/", "-")

            async def handles() -> list[str | None]:
                spec = (await b.client.get("ipamblocks.crd.projectcalico.org", name))["spec"]
                indexes = [spec["allocations"][ordinal] for ordinal in (0, 1, 2, 63)]
                return [None if i is None else spec["attributes"][i]["handle_id"] for i in indexes]

            reserved = "windows-reserved-ipam-handle"
            assert [handle == reserved for handle in await handles()] == [True, True, False, True]
            await b.calico.pod_network.detach(pod["metadata"]["uid"])
            assert await handles() == [reserved] * 4

    asyncio.run(run())


def test_exec_and_requests_go_wrong_through_the_interference() -> None:
    async def run() -> None:
        async with lab() as made:
            execs = made.interference.execs
            identity = await made.injector.inject("exec-empty-output")
            assert await made.injector.evidence(identity) == ["exec: empty-output (everywhere); 0 caught"]
            with pytest.raises(BadFault, match="exec is already made to fail: empty-output"):
                await made.injector.inject("exec-loses-status")
            assert list(execs.active) == [identity]
            await made.injector.heal(identity)
            identity = await made.injector.inject("exec-loses-status", {"pod": "p", "first": "2"})
            assert await made.injector.evidence(identity) == ["exec: lost-status (pod p); 0 of the first 2 caught"]
            refusing = await made.injector.inject("api-429", {"seconds": "30"})
            assert 29 < made.interference.refusing(refusing) <= 30
            await made.injector.heal_all()
            assert not execs.active
            assert made.interference.refusing(refusing) == 0

    asyncio.run(run())


def test_healing_one_api_that_cannot_be_reached_leaves_the_other() -> None:
    async def run() -> None:
        async with lab() as made:
            short = await made.injector.inject("api-unreachable", {"seconds": "30"})
            long = await made.injector.inject("api-unreachable", {"seconds": "60"})
            await made.injector.heal(short)
            assert made.interference.away()
            assert 59 < made.interference.going_away(long) <= 60
            await made.injector.heal(long)
            assert not made.interference.away()

    asyncio.run(run())


def test_a_missing_program_is_told_in_the_words_of_the_node_s_runtime() -> None:
    async def run() -> None:
        async with lab() as made:
            identity = await made.injector.inject("exec-missing-binary")
            words = made.interference.execs.active[identity].start_error
            pod = {"spec": {"nodeName": "linux-1"}}
            assert 'exec: "python3": executable file not found in $PATH' in words(pod, "c", ("python3",))
            pod = {"spec": {"nodeName": "windows-2022"}}
            assert "The system cannot find the file specified" in words(pod, "c", ("powershell.exe",))

    asyncio.run(run())


def test_a_container_is_killed_once_and_what_is_not_there_is_named() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("pod-restarts", {"pod": "demo/web-1"})
            assert made.killed == [("web-1", "main")]
            for pod, container, message in (
                ("web-1", "", "expected NAMESPACE/NAME"),
                ("demo/nobody", "", "there is no Pod demo/nobody"),
                ("demo/web-1", "side", "has no container 'side'"),
            ):
                with pytest.raises(BadFault, match=message):
                    await made.injector.inject("pod-restarts", {"pod": pod, "container": container})

    asyncio.run(run())


def test_no_fault_touches_what_the_api_says_but_the_reservation_whose_point_that_is() -> None:
    async def run() -> None:
        async with lab() as made:
            resources = [
                "nodes", "services", "ippools.projectcalico.org", "felixconfigurations.projectcalico.org",
                "ipamconfigurations.projectcalico.org", "tigerastatuses.operator.tigera.io",
                "blockaffinities.projectcalico.org", "ipamblocks.crd.projectcalico.org",
            ]  # fmt: skip
            for name, parameters in SAMPLES.items():
                before = [(await made.calico.client.list(resource))[0] for resource in resources]
                await made.injector.inject(name, parameters)
                after = [(await made.calico.client.list(resource))[0] for resource in resources]
                assert (before == after) is (name != "reserved-not-reserved"), name

    asyncio.run(run())
