# SPDX-License-Identifier: Apache-2.0
"""Facts from platforms' own objects about Windows nodes."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.facts.platform_objects import ADDRESSES, FLANNEL, REFLECTOR, PlatformObjects
from tests.unit.conformance.builders import Obj
from tests.unit.conformance.facts.test_objects import facts, values
from tests.unit.conformance.facts.test_operator import Served


def reads(
    *, config: Obj | None = None, node: Obj | None = None, forbidden: bool = False
) -> PlatformObjects:
    windows = {"metadata": {"name": "win"}} | (node or {})
    there: dict[tuple[str, str], list[Obj]] = {
        ("v1", "Node"): [windows],
        ("v1", "ConfigMap"): [config] if config else [],
    }
    kube: Any = Served(there, {"ConfigMap"} if forbidden else set())
    return PlatformObjects(kube, facts())


@pytest.mark.parametrize(
    ("data", "told"), [({"enable-windows-ipam": "true"}, "true"), ({}, "not set")]
)
def test_the_vpc_plugins_setting_is_told(data: dict[str, str], told: str) -> None:
    config = {"metadata": {"name": "amazon-vpc-cni", "namespace": "kube-system"}, "data": data}
    assert values(reads(config=config).windows_ipam()) == {"enable-windows-ipam": told}


def test_a_missing_object_is_not_set_and_one_that_may_not_be_read_decides_nothing() -> None:
    assert values(reads().windows_ipam()) == {"enable-windows-ipam": "not set"}
    (found,) = reads(forbidden=True).windows_ipam().values()
    assert (found.value, found.source) == (None, "no right to read ConfigMap amazon-vpc-cni")


@pytest.mark.parametrize(("allocatable", "count"), [({ADDRESSES: "9"}, 9), ({}, 0)])
def test_a_nodes_addresses_are_counted(allocatable: dict[str, str], count: int) -> None:
    found = reads(node={"status": {"allocatable": allocatable}}).vpc_addresses("win")
    assert list(values(found).values()) == [count]


@pytest.mark.parametrize(("notes", "told"), [({REFLECTOR: "244.0.0.1"}, "244.0.0.1"), ({}, "none")])
def test_a_reflectors_cluster_id_is_told(notes: dict[str, str], told: str) -> None:
    found = reads(node={"metadata": {"name": "win", "annotations": notes}}).reflector("win")
    assert list(values(found).values()) == [told]


@pytest.mark.parametrize(
    ("notes", "backend", "manager"),
    [
        (
            {f"{FLANNEL}/backend-type": "vxlan", f"{FLANNEL}/kube-subnet-manager": "true"},
            "vxlan",
            "true",
        ),
        ({f"{FLANNEL}/backend-type": "host-gw"}, "host-gw", "not set"),
        ({}, None, "not set"),
    ],
)
def test_flannels_own_words_of_a_node_are_told(
    notes: dict[str, str], backend: str | None, manager: str
) -> None:
    there = reads(node={"metadata": {"name": "win", "annotations": notes}})
    assert values(there.backend("win")) == {"flannel's backend-type on node win": backend}
    assert values(there.subnet_manager("win")) == {
        "flannel's kube-subnet-manager on node win": manager
    }
