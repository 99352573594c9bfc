# SPDX-License-Identifier: Apache-2.0
"""A feature without support on Windows is reported only if Linux nodes use it."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.errors import MissingCapability
from conformance.facts.not_on_windows import NotOnWindows
from conformance.facts.objects import CalicoObjects
from tests.unit.conformance.builders import Obj, an_object
from tests.unit.conformance.facts.test_objects import V3, Objects, facts, values

KEY = "projectcalico.org/WireguardPublicKey"


def node(name: str, **annotations: str) -> Obj:
    return {"metadata": {"name": name, "annotations": annotations}}


def pod(name: str, where: str, *addresses: str, **spec: Any) -> Obj:
    return {
        "metadata": {"name": name, "namespace": "demo"},
        "spec": {"nodeName": where} | spec,
        "status": {"podIP": addresses[0], "podIPs": [{"ip": one} for one in addresses]}
        if addresses
        else {},
    }


def reads(nodes: list[Obj], pods: tuple[Obj, ...] = (), **felix: Any) -> NotOnWindows:
    served = {
        (V3, "FelixConfiguration"): [an_object("default", **felix)],
        ("v1", "Node"): nodes,
        ("v1", "Pod"): list(pods),
    }
    kube: Any = Objects(served)
    return NotOnWindows(CalicoObjects(kube, facts()))


def test_a_key_is_looked_for_on_windows_where_linux_has_one() -> None:
    there = [node("lin", **{KEY: "a="}), node("win")]
    assert values(reads(there, wireguardEnabled=True).keys("win")) == {
        "WireGuard key of node win": "none"
    }
    there = [node("lin", **{KEY: "a="}), node("win", **{KEY: "b="})]
    assert values(reads(there, wireguardEnabled=True).keys("win")) == {
        "WireGuard key of node win": "b="
    }


def test_where_wireguard_is_off_or_has_no_key_nothing_is_shown() -> None:
    with pytest.raises(MissingCapability, match=r"no FelixConfiguration .* enables WireGuard"):
        reads([node("lin", **{KEY: "a="})]).keys("win")
    with pytest.raises(MissingCapability, match="no Linux node has a key"):
        reads([node("lin"), node("win", **{KEY: "b="})], wireguardEnabled=True).keys("win")


def test_pods_with_both_versions_are_told_by_their_node() -> None:
    linux, windows = pod("a", "lin", "10.0.0.1", "fd00::1"), pod("b", "win", "10.0.0.2")
    found = reads([node("win")], (linux, windows, pod("c", "win"))).of_ipv6("win")
    assert values(found) == {
        "IPv6 addresses of pod demo/b on node win": "none",
        "IPv6 addresses of node win": "none",
    }
    announced = node("win", **{"projectcalico.org/IPv6Address": "fd00::9/64"})
    found = reads([announced], (linux, pod("b", "win", "fd00::2", "10.0.0.2"))).of_ipv6("win")
    assert values(found) == {
        "IPv6 addresses of pod demo/b on node win": "fd00::2",
        "IPv6 addresses of node win": "projectcalico.org/IPv6Address=fd00::9/64",
    }


def test_where_no_linux_pod_has_ipv6_nothing_is_shown() -> None:
    pods = (
        pod("a", "lin", "10.0.0.1"),
        pod("h", "lin", "fd00::1", hostNetwork=True),
        pod("b", "win", "fd00::2"),
    )
    with pytest.raises(
        MissingCapability, match="cannot be seen here: no Linux pod has an IPv6 address"
    ):
        reads([node("win")], pods).of_ipv6("win")
