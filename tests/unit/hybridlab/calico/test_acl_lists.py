# SPDX-License-Identifier: Apache-2.0
"""A Windows endpoint's ACL list: what is in it, when it is given anew, and who learns of it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from hybridlab.dataplane.contract import DataplaneError
from tests.unit.hybridlab.calico.cluster_harness import DENY, POLICIES, harness


def shown_of(b: Any, pod: Any, node: str = "windows-2022") -> Any:
    return b.calico.felixes[node].acls[pod["metadata"]["uid"]]


def resets(b: Any, pod: Any) -> Any:
    return sum(pod["metadata"]["uid"] in update.reset for _, update in b.dataplane.updates)


def test_a_new_endpoint_has_the_plugins_denial_until_felix_gives_its_list() -> None:
    async def run() -> None:
        async with harness(felix=False) as b:
            pod, _ = await b.pod("w", "windows-2022")
            felix = b.calico.felixes["windows-2022"]
            (only,) = felix.acls[pod["metadata"]["uid"]]
            assert (only["Direction"], only["Action"], only["Priority"]) == ("In", "Block", 65500)
            b.calico.felix_started("windows-2022")
            await b.until(lambda: len(felix.acls[pod["metadata"]["uid"]]) == 7)
            await b.calico.pod_network.detach(pod["metadata"]["uid"])
            assert pod["metadata"]["uid"] not in felix.acls
            assert not b.calico.felixes["linux-1"].acls

    asyncio.run(run())


def test_only_endpoints_whose_list_changes_get_it_anew_and_are_reset() -> None:
    async def run() -> None:
        async with harness() as b:
            chosen, _ = await b.pod("chosen", "windows-2022", app="chosen")
            beside, _ = await b.pod("beside", "windows-2022", app="beside")
            linux, _ = await b.pod("linux", "linux-1", app="chosen")
            await b.settled()
            before = {
                name: (shown_of(b, pod), resets(b, pod))
                for name, pod in (("c", chosen), ("b", beside))
            }
            spec = {
                "podSelector": {"matchLabels": {"app": "chosen"}},
                "ingress": [{"from": [{"podSelector": {}}]}],
            }
            await b.client.create(
                POLICIES, {"metadata": {"name": "p", "namespace": "demo"}, "spec": spec}
            )
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


@pytest.mark.parametrize(
    ("version", "again"), [("v3.31.0", 0), ("v3.30.7", 1), ("v3.32.1", 0), ("v3.29.0", 1)]
)
def test_a_label_that_means_nothing_gives_the_list_anew_before_3_31_only(
    version: str, again: int
) -> None:
    async def run() -> None:
        async with harness(f"calico.version={version}") as b:
            pod, _ = await b.pod("w", "windows-2022", app="w")
            await b.settled()
            before, count = shown_of(b, pod), resets(b, pod)
            await b.client.patch("pods", "w", {"metadata": {"labels": {"colour": "red"}}}, "demo")
            await b.settled()
            assert resets(b, pod) - count == again
            assert shown_of(b, pod) == before

    asyncio.run(run())


def test_another_policy_with_the_same_effect_changes_nothing() -> None:
    async def run() -> None:
        async with harness() as b:
            pod, _ = await b.pod("w", "windows-2022")
            await b.client.create(POLICIES, DENY)
            await b.settled()
            before, count = shown_of(b, pod), resets(b, pod)
            await b.client.create(
                POLICIES, {**DENY, "metadata": {"name": "deny-too", "namespace": "demo"}}
            )
            await b.settled()
            assert (shown_of(b, pod), resets(b, pod)) == (before, count)

    asyncio.run(run())


def test_a_felix_that_starts_gives_every_list_anew_with_the_ids_that_it_had() -> None:
    async def run() -> None:
        async with harness() as b:
            pod, _ = await b.pod("w", "windows-2022")
            linux, _ = await b.pod("l", "linux-1")
            ingress: list[Any] = [{"from": [{"podSelector": {}}]}]
            policy = {
                "metadata": {"name": "p", "namespace": "demo"},
                "spec": {"podSelector": {}, "ingress": ingress},
            }
            await b.client.create(POLICIES, policy)
            await b.settled()
            before, count = shown_of(b, pod), resets(b, pod)
            host, rule, end, *_ = (entry.get("Id") for entry in before)
            assert (host, end) == ("allow-host-to-endpoint", None)
            assert re.fullmatch(r"policy-demo/knp.default.p-[\w-]{16}-0", rule)
            for node in ("windows-2022", "linux-1"):
                await b.calico.felix_stopped(node)
                b.calico.felix_started(node)
            await b.settled()
            assert (shown_of(b, pod), resets(b, pod)) == (before, count + 1)
            assert resets(b, linux) == 0
            await b.client.create(
                POLICIES, {**policy, "metadata": {"name": "q", "namespace": "demo"}}
            )
            await b.settled()
            assert {entry.get("Id") for entry in before} < {
                entry.get("Id") for entry in shown_of(b, pod)
            }

    asyncio.run(run())


def test_faults_that_wait_for_a_reprogramming_may_come_go_and_fail_without_felix_starting_again() -> (
    None
):
    async def run() -> None:
        async with harness() as b:
            pod, _ = await b.pod("w", "windows-2022")
            await b.settled()
            felix, told = b.calico.felixes["windows-2022"], []

            async def healed_meanwhile(endpoints: Any) -> None:
                told.append("first")
                felix.faults.on_reprogrammed.pop("second")
                felix.faults.on_reprogrammed["third"] = healed_meanwhile

            async def fails(endpoints: Any) -> None:
                raise DataplaneError("no such rule")

            felix.faults.on_reprogrammed |= {
                "0": fails,
                "first": healed_meanwhile,
                "second": healed_meanwhile,
            }
            await b.client.create(POLICIES, DENY)
            await b.until(lambda: told)
            await b.settled()
            assert told == ["first"]
            assert any(
                "Fault 0 failed: DataplaneError('no such rule')" in line for _, line in b.logged
            )
            assert not any("starts again" in line for _, line in b.logged)
            await b.client.delete(POLICIES, "deny", "demo")
            await b.until(lambda: b.program(pod) is not None and not b.program(pod).ingress)

    asyncio.run(run())
