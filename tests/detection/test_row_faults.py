# SPDX-License-Identifier: Apache-2.0
"""The faults that only rows need: their parameters, and that they are in effect until they are
healed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hybridlab.faults.errors import BadFault
from tests.detection.taps import policy_lost
from tests.detection.taps.table import FAULTS, taps
from tests.unit.hybridlab.faults.fault_lab import lab

ROWS = taps("")
POLICIES = "networkpolicies.networking.k8s.io"
DENY = {"metadata": {"name": "deny", "namespace": "demo"}, "spec": {"podSelector": {}}}
SAMPLES = {
    "policy-misread": {"as": "any-port", "node": "linux-1"},
    "policy-lost": {"node": "windows-2022", "after": "service-made"},
    "policy-edit-ignored": {"node": "linux-1", "field": "order"},
    "backends-of-another": {},
    "backends-stale": {"node": "linux-1"},
    "bare-packets-arrive": {"node": "windows-2022"},
    "backends-never-return": {"node": "linux-1"},
    "cluster-ip-needs-local-backend": {"node": "windows-2022"},
    "cni-file": {"node": "windows-2022", "plugin": "win-bridge"},
    "denial-wears-off": {"node": "linux-1", "seconds": "5"},
    "documented-patch": {"does": "refused"},
    "external-policy-ignored": {"node": "linux-1"},
    "first-syns-denied": {"node": "windows-2022"},
    "foreign-slices-ignored": {"node": "linux-1"},
    "hns-holds": {"node": "windows-2022", "way": "twin-address"},
    "host-reaches-all": {"node": "windows-2022"},
    "host-refused": {"node": "windows-2022"},
    "internal-policy-ignored": {},
    "ipam-borrows": {"node": "linux-2", "of": "windows-2022"},
    "large-vni-sent": {"node": "windows-2022", "as": "other"},
    "last-backend-stays-away": {"node": "windows-2022"},
    "load-balancers-missing": {"node": "linux-1"},
    "node-ports-missing": {"node": "linux-1"},
    "not-ready-left-out": {"node": "linux-1"},
    "one-backend": {},
    "one-backend-of-datagrams": {},
    "one-port": {},
    "plugin-refuses": {"node": "windows-2022"},
    "refusal-in-other-words": {"node": "windows-2022"},
    "services-beyond-a-hundred-missing": {"node": "windows-2022"},
    "session-affinity-closed": {"node": "windows-2022"},
    "session-affinity-early": {"node": "windows-2022"},
    "session-affinity-ignored": {},
    "shared-backends-lost": {"node": "windows-2022"},
    "target-port-ignored": {"node": "windows-2022"},
    "udp-closed-beside-tcp": {"node": "linux-2"},
    "udp-flows-stay": {"node": "linux-2"},
    "udp-node-ports-keep-clients": {"node": "linux-2"},
    "udp-node-ports-missing": {"node": "linux-1"},
    "unready-backends-used": {},
    "windows-follows-the-port": {"node": "windows-2022"},
    "windows-takes-any-vni": {"node": "windows-2022"},
    "windows-has-two-blocks": {},
}


def test_every_fault_has_a_sample() -> None:
    assert set(SAMPLES) == set(FAULTS)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_each_is_in_effect_after_its_injection_and_not_after_its_healing(name: str) -> None:
    async def run() -> None:
        async with lab(taps=ROWS) as made:
            identity = await made.injector.inject(name, SAMPLES[name])
            assert await made.injector.evidence(identity)
            await made.injector.heal(identity)
            assert made.injector.active() == []
            assert all(not by_name for by_name in made.dataplane.faults.values())

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        (
            "policy-lost",
            {"after": "felix-down", "of": "ingress"},
            "is lost as a whole: protocol=all of=ingress",
        ),
        (
            "policy-lost",
            {"after": "backend-gone", "protocol": "tcp"},
            "is lost as a whole: protocol=tcp of=all",
        ),
        (
            "policy-lost",
            {"after": "pod-labels", "protocol": "tcp", "of": "calico"},
            "is lost as a whole",
        ),
        (
            "policy-lost",
            {"after": "pod-labels", "at": "linux", "of": "calico"},
            "protocol=all of=calico at=linux",
        ),
        (
            "policy-lost",
            {"after": "member-deleted", "port": "8081"},
            "protocol=all of=all port=8081",
        ),
        (
            "policy-lost",
            {"after": "pod-labels", "port": "8081", "protocol": "icmp"},
            "port is '8081', expected a number",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    name: str, parameters: dict[str, str], message: str
) -> None:
    async def run() -> None:
        async with lab(taps=ROWS) as made:
            with pytest.raises(BadFault, match=message):
                await made.injector.inject(name, parameters)

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
        async with lab(taps=ROWS) as faulty:
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
        async with lab(taps=ROWS) as made:
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
