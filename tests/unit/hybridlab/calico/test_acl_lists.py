"""A Windows endpoint's ACL list: what is in it, when it is given anew, and who learns of it."""

from __future__ import annotations

import asyncio
import re

import pytest

from hybridlab.calico.acls import acl_list, shown
from hybridlab.dataplane.contract import DataplaneError
from hybridlab.dataplane.model import EndpointProgram, Match, Rule, Tier
from tests.unit.hybridlab.calico.cluster_bench import bench
from tests.unit.hybridlab.calico.test_cluster import DENY, POLICIES

HOST = "10.0.0.14"
SETS = {"web": ("192.168.0.7", "192.168.0.5"), "none": (), "ports": ("192.168.0.9,tcp,80", "192.168.0.8,udp,53")}


def rule(action="allow", **match):
    return Rule(action=action, match=Match(**match))


def tier(*rules, end="deny"):
    return Tier(name="t", rules=rules, end=end)


def lines(ingress=(), egress=()):
    """The list, an entry a line, without what is always there."""
    entries = shown(acl_list(EndpointProgram(ingress=ingress, egress=egress), SETS.__getitem__, HOST))
    assert all(entry["Type"] == "ACL" and entry["RuleType"] == "Switch" for entry in entries)
    known = [entry["Id"] for entry in entries if "Id" in entry]
    assert len(set(known)) == len(known)
    keys = (
        "Priority",
        "Direction",
        "Action",
        "Protocol",
        "LocalAddresses",
        "LocalPorts",
        "RemoteAddresses",
        "RemotePorts",
    )
    found = [" ".join(str(entry[key]) or "-" for key in keys) for entry in entries]
    assert found[0] == f"900 In Allow 256 - - {HOST}/32 -"
    return found[1:]


OPEN_OUT = "1000 Out Allow 256 - - - -"


def test_without_policies_everything_is_allowed():
    assert lines() == ["1000 In Allow 256 - - - -", OPEN_OUT]


def test_rules_stand_in_order_with_members_written_out_and_the_end_of_the_tier():
    ingress = tier(
        rule("deny", protocol="tcp", src_nets=("10.0.0.0/8",), dst_ports=((80, 80), (8000, 8080))),
        rule(src_sets=("web",), protocol="udp"),
    )
    assert lines(ingress=(ingress,)) == [
        "1000 In Block 6 - 80,8000-8080 10.0.0.0/8 -",
        "1001 In Allow 17 - - 192.168.0.5/32,192.168.0.7/32 -",
        "1002 In Block 256 - - - -",
        OPEN_OUT,
    ]


def test_local_and_remote_follow_the_direction():
    egress = tier(rule(dst_sets=("web",), dst_ports=((53, 53),), src_ports=((1024, 65535),), protocol="17"))
    assert lines(egress=(egress,))[1:] == [
        "1000 Out Allow 17 - 1024-65535 192.168.0.5/32,192.168.0.7/32 53",
        "1001 Out Block 256 - - - -",
    ]


def test_sets_and_networks_together_are_their_intersection():
    ingress = tier(rule(src_sets=("web",), src_nets=("192.168.0.4/31",)), rule(src_sets=("none",)))
    assert lines(ingress=(ingress,))[0] == "1000 In Allow 256 - - 192.168.0.5/32 -"
    assert lines(ingress=(ingress,))[1] == "1001 In Block 256 - - - -"


def test_a_services_backends_are_an_entry_each():
    assert lines(egress=(tier(rule(dst_ip_port_sets=("ports",), protocol="tcp")),))[1] == (
        "1000 Out Allow 6 - - 192.168.0.9/32 80"
    )


def test_tiers_are_flattened_into_one_list():
    first = tier(rule("pass", src_nets=("10.0.0.0/8",), protocol="tcp"), end="deny")
    second = tier(rule(src_nets=("10.1.0.0/16", "11.0.0.0/8"), dst_ports=((80, 80),)), rule("deny", protocol="udp"))
    assert lines(ingress=(first, second))[:-1] == [
        "1000 In Allow 6 - 80 10.1.0.0/16 -",
        "1001 In Block 6 - - 10.0.0.0/8 -",
        "1002 In Block 256 - - - -",
    ]
    passing = tier(rule("deny", protocol="udp"), end="pass")
    assert lines(ingress=(passing,))[:-1] == ["1000 In Block 17 - - - -", "1001 In Allow 256 - - - -"]


def shown_of(b, pod, node="windows-2022"):
    return b.calico.felixes[node].acls[pod["metadata"]["uid"]]


def resets(b, pod):
    return sum(pod["metadata"]["uid"] in update.reset for _, update in b.dataplane.updates)


def test_a_new_endpoint_has_the_plugins_denial_until_felix_gives_its_list():
    async def run() -> None:
        async with bench(felix=False) as b:
            pod, _ = await b.pod("w", "windows-2022")
            felix = b.calico.felixes["windows-2022"]
            (only,) = felix.acls[pod["metadata"]["uid"]]
            assert (only["Direction"], only["Action"], only["Priority"]) == ("In", "Block", 65500)
            b.calico.felix_started("windows-2022")
            await b.until(lambda: len(felix.acls[pod["metadata"]["uid"]]) == 3)
            await b.calico.pod_network.detach(pod["metadata"]["uid"])
            assert pod["metadata"]["uid"] not in felix.acls
            assert not b.calico.felixes["linux-1"].acls

    asyncio.run(run())


def test_only_endpoints_whose_list_changes_get_it_anew_and_are_reset():
    async def run() -> None:
        async with bench() as b:
            chosen, _ = await b.pod("chosen", "windows-2022", app="chosen")
            beside, _ = await b.pod("beside", "windows-2022", app="beside")
            linux, _ = await b.pod("linux", "linux-1", app="chosen")
            await b.settled()
            before = {name: (shown_of(b, pod), resets(b, pod)) for name, pod in (("c", chosen), ("b", beside))}
            spec = {"podSelector": {"matchLabels": {"app": "chosen"}}, "ingress": [{"from": [{"podSelector": {}}]}]}
            await b.client.create(POLICIES, {"metadata": {"name": "p", "namespace": "demo"}, "spec": spec})
            await b.settled()
            assert shown_of(b, chosen) != before["c"][0]
            assert resets(b, chosen) == before["c"][1] + 1
            assert (shown_of(b, beside), resets(b, beside)) == before["b"]
            assert resets(b, linux) == 0
            member, _ = await b.pod("member", "linux-2")
            await b.settled()
            assert resets(b, chosen) == before["c"][1] + 2, "a new member of the selector"
            assert (shown_of(b, beside), resets(b, beside)) == before["b"]
            assert member

    asyncio.run(run())


@pytest.mark.parametrize(("version", "again"), [("v3.31.0", 0), ("v3.30.7", 1), ("v3.32.1", 0), ("v3.29.0", 1)])
def test_a_label_that_means_nothing_gives_the_list_anew_before_3_31_only(version, again):
    async def run() -> None:
        async with bench(f"calico.version={version}") as b:
            pod, _ = await b.pod("w", "windows-2022", app="w")
            await b.settled()
            before, count = shown_of(b, pod), resets(b, pod)
            await b.client.patch("pods", "w", {"metadata": {"labels": {"colour": "red"}}}, "demo")
            await b.settled()
            assert resets(b, pod) - count == again
            assert shown_of(b, pod) == before

    asyncio.run(run())


def test_another_policy_with_the_same_effect_changes_nothing():
    async def run() -> None:
        async with bench() as b:
            pod, _ = await b.pod("w", "windows-2022")
            await b.client.create(POLICIES, DENY)
            await b.settled()
            before, count = shown_of(b, pod), resets(b, pod)
            await b.client.create(POLICIES, {**DENY, "metadata": {"name": "deny-too", "namespace": "demo"}})
            await b.settled()
            assert (shown_of(b, pod), resets(b, pod)) == (before, count)

    asyncio.run(run())


def test_a_felix_that_starts_gives_every_list_anew_with_the_ids_that_it_had():
    async def run() -> None:
        async with bench() as b:
            pod, _ = await b.pod("w", "windows-2022")
            linux, _ = await b.pod("l", "linux-1")
            ingress = [{"from": [{"podSelector": {}}]}]
            policy = {"metadata": {"name": "p", "namespace": "demo"}, "spec": {"podSelector": {}, "ingress": ingress}}
            await b.client.create(POLICIES, policy)
            await b.settled()
            before, count = shown_of(b, pod), resets(b, pod)
            host, rule, end, _ = (entry.get("Id") for entry in before)
            assert (host, end) == ("allow-host-to-endpoint", None)
            assert re.fullmatch(r"policy-NetworkPolicy/demo/knp.default.p-[\w-]{16}-0", rule)
            for node in ("windows-2022", "linux-1"):
                await b.calico.felix_stopped(node)
                b.calico.felix_started(node)
            await b.settled()
            assert (shown_of(b, pod), resets(b, pod)) == (before, count + 1)
            assert resets(b, linux) == 0
            await b.client.create(POLICIES, {**policy, "metadata": {"name": "q", "namespace": "demo"}})
            await b.settled()
            assert {entry.get("Id") for entry in before} < {entry.get("Id") for entry in shown_of(b, pod)}

    asyncio.run(run())


def test_faults_that_wait_for_a_reprogramming_may_come_go_and_fail_without_felix_starting_again():
    async def run() -> None:
        async with bench() as b:
            pod, _ = await b.pod("w", "windows-2022")
            await b.settled()
            felix, told = b.calico.felixes["windows-2022"], []

            async def healed_meanwhile(endpoints):
                told.append("first")
                felix.faults.on_reprogrammed.pop("second")
                felix.faults.on_reprogrammed["third"] = healed_meanwhile

            async def fails(endpoints):
                raise DataplaneError("no such rule")

            felix.faults.on_reprogrammed |= {"0": fails, "first": healed_meanwhile, "second": healed_meanwhile}
            await b.client.create(POLICIES, DENY)
            await b.until(lambda: told)
            await b.settled()
            assert told == ["first"]
            assert any("Fault 0 failed: DataplaneError('no such rule')" in line for _, line in b.logged)
            assert not any("starts again" in line for _, line in b.logged)
            await b.client.delete(POLICIES, "deny", "demo")
            await b.until(lambda: b.program(pod) is not None and not b.program(pod).ingress)

    asyncio.run(run())
