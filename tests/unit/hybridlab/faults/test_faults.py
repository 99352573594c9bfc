# SPDX-License-Identifier: Apache-2.0
"""Every fault: put in place, read back from the true state, and healed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hybridlab.faults.errors import BadFault
from hybridlab.networks.registry import fault_types
from tests.unit.hybridlab.faults import page
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
    "policy-hits-node",
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
    "dns-alias-wrong",
    "dns-silent",
    "dns-stale",
    "dns-slow",
    "dns-pod-silent",
    "dns-backend-dead",
    "search-list-wrong",
    "packets-dropped",
    "bytes-changed",
    "hairpin-dropped",
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
    "answers-under-policy",
    "exec-hangs",
    "exec-empty-output",
    "exec-half-output",
    "exec-loses-status",
    "exec-cut",
    "exec-missing-binary",
    "exec-wrong-binary",
    "exec-killed",
    "exec-slow",
    "exec-other-words",
    "admission",
    "api-429",
    "api-500",
    "api-503",
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
    "policy-hits-node": {"node": "windows-2022"},
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
    "dns-alias-wrong": {},
    "dns-silent": {"node": "linux-1"},
    "dns-stale": {},
    "dns-slow": {"node": "linux-1", "seconds": "2"},
    "dns-pod-silent": {"node": "linux-1", "pod": "2"},
    "dns-backend-dead": {"node": "linux-1"},
    "search-list-wrong": {"node": "linux-1", "list": "own-only"},
    "packets-dropped": {"node": "linux-1", "match": "tcp_dport_443"},
    "bytes-changed": {"node": "linux-1"},
    "hairpin-dropped": {"node": "linux-1"},
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
    "answers-under-policy": {"protocol": "udp"},
    "exec-hangs": {"namespace": "demo", "pod": "a"},
    "exec-empty-output": {"namespace": "demo", "pod": "b"},
    "exec-half-output": {"namespace": "demo", "pod": "c"},
    "exec-loses-status": {"namespace": "demo", "pod": "d", "first": "2"},
    "exec-cut": {"namespace": "demo", "pod": "e"},
    "exec-missing-binary": {"node": "linux-1", "pod": "f"},
    "exec-wrong-binary": {"node": "linux-1", "pod": "g", "program": "hostname"},
    "exec-killed": {"namespace": "demo", "pod": "h"},
    "exec-slow": {"namespace": "demo", "pod": "late", "seconds": "2"},
    "exec-other-words": {"namespace": "demo", "pod": "worded", "words": "a", "instead": "b"},
    "admission": {"does": "sidecar"},
    "api-429": {"seconds": "30"},
    "api-unreachable": {"seconds": "30"},
    "api-500": {"seconds": "30", "namespace": "demo", "first": "3"},
    "api-503": {"seconds": "30", "of": "eviction"},
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
    "reflects-nothing": {"node": "linux-1"},
    "announces-more": {"node": "windows-2022"},
    "node-status-filled": {"node": "windows-2022"},
    "source-check-on": {},
    "host-endpoint-missing": {},
}
"""Samples of faults of planes without an overlay, on the profile bgp."""
ROUTED_BY_OTHERS: dict[str, tuple[str, dict[str, str]]] = {
    "node-route-missing": ("static-routes", {"node": "linux-1", "to": "windows-2022"}),
    "fabric-route-missing": ("aks-operator", {"node": "windows-2022"}),
    "pod-cidr-full": ("static-routes", {"node": "windows-2022"}),
}
"""Samples of faults where others than Calico route, each with a profile."""
OFFERED = NAMES | set(WITHOUT_AN_OVERLAY) | set(ROUTED_BY_OTHERS)
BY_BGP = sorted(set(WITHOUT_AN_OVERLAY) - {"host-endpoint-missing", "source-check-on"})


def test_every_fault_has_a_sample() -> None:
    assert set(fault_types()) == OFFERED
    assert set(SAMPLES) == NAMES


@pytest.mark.parametrize("name", BY_BGP)
def test_a_fault_of_bgp_is_refused_where_nobody_speaks_it(name: str) -> None:
    async def run() -> None:
        async with lab() as made:
            with pytest.raises(BadFault, match="the lab's nodes do not speak BGP"):
                await made.injector.inject(name, WITHOUT_AN_OVERLAY[name])

    asyncio.run(run())


@pytest.mark.parametrize("name", sorted(ROUTED_BY_OTHERS))
def test_a_fault_of_others_routes_is_refused_where_calico_routes(name: str) -> None:
    async def run() -> None:
        async with lab("bgp") as made:
            with pytest.raises(BadFault, match="Calico sets the routes to this lab's pods"):
                await made.injector.inject(name, ROUTED_BY_OTHERS[name][1])

    asyncio.run(run())


@pytest.mark.parametrize("name", sorted(OFFERED))
def test_each_is_in_effect_after_its_injection_and_not_after_its_healing(name: Any) -> None:
    async def run() -> None:
        profile, sample = ROUTED_BY_OTHERS.get(name, ("bgp", WITHOUT_AN_OVERLAY.get(name)))
        async with lab("default" if sample is None else profile) as made:
            identity = await made.injector.inject(name, sample or SAMPLES.get(name, {}))
            assert await made.injector.evidence(identity)
            assert [(item["id"], item["fault"]) for item in made.injector.active()] == [
                (identity, name)
            ]
            fault = made.injector._active[identity].fault
            await made.injector.heal(identity)
            assert made.injector.active() == []
            assert not await fault.verified()
            assert all(not by_name for by_name in made.dataplane.faults.values())

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


def test_the_page_about_faults_is_what_the_catalogue_says() -> None:
    written = page.PAGE.read_text(encoding="utf-8")
    assert written == page.page(), "write it anew: python -m tests.unit.hybridlab.faults.page"
