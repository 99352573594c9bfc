# SPDX-License-Identifier: Apache-2.0
"""The CNI file, HNS' objects and a pod's first moments by plugin are those of tests/golden/routed,
whose README says where they are from."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from hybridlab.networks.registry import plane_of
from hybridlab.networks.routed.plane import Routed
from hybridlab.profiles.load import load
from hybridlab.windows import hns_objects
from tests.unit.hybridlab.networks.test_routed_plane import PROFILES, plane, with_pod
from tests.unit.hybridlab.networks.test_sources_by_plugin import swap

GOLDEN = Path(__file__).parents[3] / "golden" / "routed"
OF_THE_LAB = {"ActivityId", "ID", "VirtualNetwork", "Health", "MacAddress", "ManagementIP"}
"""Fields in which no plugin has a say."""


def about(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if name not in OF_THE_LAB}


def made(found: Routed) -> dict[str, Any]:
    """What a Windows node with one pod shows: the CNI file, the pods' HNS network, its endpoints,
    and whether a pod takes anything before Felix has programmed it."""
    node, network = with_pod(found)
    (path,) = (name for name in node.cni_files if not name.endswith("calico-kubeconfig"))
    there = node.hns.pod_network
    assert there is not None
    shown = [hns_objects.endpoint(one, there, node.pod_policies, ()) for one in node.hns.endpoints]
    port = found.pod_port(node.machine, network.replace(".0/24", ".9"), network, node)
    return {
        "file": path,
        "content": json.loads(node.cni_text),
        "network": about(hns_objects.network(there, node.machine.address, ())),
        "endpoints": [about(one) for one in shown],
        "at first": port.initial,
    }


@pytest.mark.parametrize("profile", PROFILES)
def test_a_plugin_leaves_the_files_and_objects_of_its_sources(profile: str) -> None:
    golden = json.loads((GOLDEN / f"{profile}.json").read_text(encoding="utf-8"))
    assert made(plane(profile)) == golden


@pytest.mark.parametrize(("one", "other"), list(combinations(PROFILES, 2)))
def test_two_plugins_in_each_others_place_leave_the_golden_of_neither(
    monkeypatch: pytest.MonkeyPatch, one: str, other: str
) -> None:
    swap(monkeypatch, one, other)
    for profile in (one, other):
        golden = json.loads((GOLDEN / f"{profile}.json").read_text(encoding="utf-8"))
        assert made(plane(profile)) != golden, profile


def test_azure_keeps_the_route_to_services_without_direct_server_return() -> None:
    found = plane_of(load("aks-no-dsr"))
    assert isinstance(found, Routed)
    (plugin,) = made(found)["content"]["plugins"]
    assert "windowsSettings" not in plugin
    assert [entry["Value"]["Type"] for entry in plugin["AdditionalArgs"]] == [
        "OutBoundNAT",
        "ROUTE",
        *["ACL"] * 4,
    ]
