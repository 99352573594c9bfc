# SPDX-License-Identifier: Apache-2.0
"""The injector refuses wrong input, and believes in an effect only with evidence."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hybridlab.faults.errors import BadFault, FaultFailed
from hybridlab.faults.injector import Injector
from hybridlab.networks.registry import fault_types
from tests.unit.hybridlab.faults.fault_lab import lab


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        (
            "udp4789",
            {},
            "there is no fault 'udp4789'. Did you mean udp4789-dropped? The lab's faults are: "
            "udp4789-dropped, mtu-black-hole, fragments-dropped",
        ),
        (
            "dns-silent",
            {"where": "x"},
            "fault dns-silent has no parameter 'where'; its parameters: node",
        ),
        (
            "exec-cut",
            {"where": "x"},
            "fault exec-cut has no parameter 'where'; its parameters: node, namespace, pod, first",
        ),
        ("exec-cut", {"node": "nowhere"}, "there is no node 'nowhere'"),
        ("exec-cut", {"first": "-1"}, "first is '-1', expected a whole number, 0 or more"),
        ("exec-wrong-binary", {"program": " "}, "program is empty"),
        ("policy-refuses", {"with": "words"}, "with is 'words', expected one of rst, icmp"),
        (
            "policy-not-enforced",
            {},
            "fault policy-not-enforced needs parameter node: name of a node",
        ),
        (
            "policy-not-enforced",
            {"node": "nowhere"},
            "there is no node 'nowhere'; the nodes are control-plane, linux-1",
        ),
        ("policy-late", {"seconds": "soon"}, "seconds is 'soon', expected a number of seconds"),
        ("policy-late", {"seconds": "-1"}, "seconds is '-1', expected a number of seconds"),
        ("policy-late", {"seconds": "nan"}, "seconds is 'nan', expected a number of seconds"),
        ("policy-late", {"seconds": "0"}, "seconds is '0', expected a number of seconds above 0"),
        ("no-reset-recovery", {"seconds": "-1"}, "seconds is '-1', expected a number of seconds"),
        ("no-reset-recovery", {"seconds": "nan"}, "seconds is 'nan', expected a number of seconds"),
        ("no-reset-recovery", {"seconds": "inf"}, "seconds is 'inf', expected a number of seconds"),
        ("no-reset-recovery", {"seconds": "abc"}, "above 0 and below 86400, or 0"),
        ("route-missing", {"node": "linux-1", "to": "linux-1"}, "to is 'linux-1', the node itself"),
        ("forwarding-missing", {"node": "windows-2022"}, "there is no Linux node 'windows-2022'"),
        ("vxlan-differs", {"node": "linux-1"}, "neither vni nor port is given"),
        ("vxlan-differs", {"node": "linux-1", "vni": "x"}, "vni is 'x', expected a number"),
        (
            "flows-dropped",
            {"node": "linux-1", "every": "1"},
            "every is '1', expected a whole number from 2 to 1000",
        ),
        (
            "flows-dropped",
            {"node": "linux-1", "every": "x"},
            "every is 'x', expected a whole number from 2 to 1000",
        ),
        ("udp4789-dropped", {"scope": "rack"}, "scope is 'rack', expected one of all, node, pair"),
        ("udp4789-dropped", {"scope": "pair", "node": "linux-1"}, "there is no node ''"),
        (
            "udp4789-dropped",
            {"node": "linux-1"},
            "node is 'linux-1', expected none: scope all takes no node",
        ),
        (
            "service-backend-missing",
            {"service": "web", "node": "linux-1"},
            "service is 'web', expected NAMESPACE/NAME",
        ),
        (
            "service-backend-missing",
            {"service": "demo/x", "node": "linux-1"},
            "there is no Service demo/x",
        ),
        (
            "reserved-not-reserved",
            {"node": "linux-1"},
            "there is no Windows node 'linux-1'; Windows nodes: windows-2022",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_refused_with_what_there_is(
    name: str, parameters: Any, message: str
) -> None:
    async def run() -> None:
        async with lab() as made:
            with pytest.raises(BadFault) as refused:
                await made.injector.inject(name, parameters)
            assert message in str(refused.value)
            assert made.injector.active() == []

    asyncio.run(run())


def test_an_injection_that_the_kernel_does_not_show_is_not_believed() -> None:
    async def run() -> None:
        async with lab() as made:
            made.dataplane.deaf = True
            with pytest.raises(
                FaultFailed,
                match=r"udp4789-dropped is not in effect .*; observed effects: none",
            ):
                await made.injector.inject("udp4789-dropped")
            assert made.injector.active() == []

    asyncio.run(run())


def test_a_healing_that_the_kernel_does_not_show_is_not_believed_and_the_fault_stays_active() -> (
    None
):
    async def run() -> None:
        async with lab() as made:
            identity = await made.injector.inject("udp4789-dropped")
            made.dataplane.deaf = True
            with pytest.raises(
                FaultFailed,
                match="is still in effect after it was healed: fabric f_fwd: udp dport 4789",
            ):
                await made.injector.heal(identity)
            with pytest.raises(FaultFailed, match=identity):
                await made.injector.heal_all()
            assert [item["id"] for item in made.injector.active()] == [identity]
            made.dataplane.deaf = False
            await made.injector.heal_all()
            assert made.injector.active() == []

    asyncio.run(run())


def test_an_unknown_id_is_refused_with_the_active_ones() -> None:
    async def run() -> None:
        async with lab() as made:
            identity = await made.injector.inject("dns-silent")
            with pytest.raises(BadFault, match=f"no active fault 'x'; active faults: {identity}"):
                await made.injector.heal("x")

    asyncio.run(run())


def test_the_catalogue_tells_what_each_fault_takes() -> None:
    listed = {item["name"]: item for item in Injector.catalogue(fault_types().values())}
    assert listed["policy-late"]["parameters"] == {
        "node": "name of a node, or all",
        "seconds": "the delay in seconds",
    }
    assert all(item["description"] and item["scope"] and item["layer"] for item in listed.values())
