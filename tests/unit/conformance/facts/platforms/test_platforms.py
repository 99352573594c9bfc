# SPDX-License-Identifier: Apache-2.0
"""The facts that detection finds on recorded clusters of many platforms, and the page that lists
them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.facts.detect import detect
from conformance.facts.felix_meant import LOOKED_FOR
from conformance.model.facts import Fact
from conformance.model.host import HnsNetwork
from tests.unit.conformance.facts.platforms import document
from tests.unit.conformance.facts.platforms.served import Cluster, clusters, served
from tests.unit.conformance.facts.test_node_readings import AZURE, CALICO, Host

SERVICES = "C:\\CalicoWindows\\calico-node.exe"
NAMES = [item.name for item in clusters()]


@pytest.fixture(params=clusters(), ids=NAMES)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Each of them."""
    found: Cluster = request.param
    return found


def test_every_fact_about_a_platform_is_what_its_file_expects(
    cluster: Cluster, tmp_path: Path
) -> None:
    with served(cluster, tmp_path) as kube:
        facts = detect(kube)
    found = document.values(facts)
    assert {name: found[name] for name in cluster.expect} == cluster.expect


def test_every_fact_says_where_it_came_from(cluster: Cluster, tmp_path: Path) -> None:
    with served(cluster, tmp_path) as kube:
        facts = detect(kube)
    for name, fact in document.told(facts):
        assert fact.source, name
        assert fact.known or fact.source.startswith("not known: "), name


def test_a_run_does_on_a_platform_what_its_file_expects(cluster: Cluster, tmp_path: Path) -> None:
    with served(cluster, tmp_path) as kube:
        found = document.outcome(detect(kube), kube)
    said, wanted = found.pop("says", ""), dict(cluster.outcome)
    assert wanted.pop("says", "") in said
    assert "\n" not in said
    assert found == wanted


def test_a_cluster_without_calico_on_windows_is_refused_with_what_was_looked_for(
    tmp_path: Path,
) -> None:
    bare = [item for item in clusters() if "not meant" in item.outcome["felix"].values()]
    for cluster in (item for item in bare if "exit" in item.outcome):
        with served(cluster, tmp_path) as kube:
            said = document.outcome(detect(kube), kube)["says"]
        assert said.startswith(
            "no Windows node is meant to run Calico, so there is nothing to judge. "
        ), cluster.name
        assert f"looked for {LOOKED_FOR}" in said
    assert len(bare) > 5


def test_every_source_is_a_file_of_a_commit_with_its_sum_and_a_licence(cluster: Cluster) -> None:
    assert cluster.sources
    for source in cluster.sources:
        assert re.fullmatch(r"[0-9a-f]{40}", source.commit), source
        assert re.fullmatch(r"[0-9a-f]{64}", source.sha256), source
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", source.repository), source
        assert source.licence in ("Apache-2.0", "MIT"), source


def test_the_page_shows_what_is_found(tmp_path: Path) -> None:
    wanted: Any = document.PAGE.read_text(encoding="utf-8")
    assert document.page(tmp_path) == wanted, (
        "python -m tests.unit.conformance.facts.platforms.document writes it anew"
    )


def test_a_node_that_may_have_several_blocks_is_not_judged_as_one_that_has_one(
    tmp_path: Path,
) -> None:
    cluster = next(item for item in clusters() if item.name == "kubeadm-operator")
    with served(cluster, tmp_path) as kube:
        facts = detect(kube)
    ours = {"IPAM-4", "IPAM-6", "IPAM-7"}
    assert (facts.single_network.value, ours & set(document.values(facts)["applies"].split())) == (
        True,
        ours,
    )
    several = replace(
        facts, single_network=Fact(False, "windows_use_single_network in CNI_NETWORK_CONFIG")
    )
    assert not ours & set(document.values(several)["applies"].split())


@pytest.mark.parametrize(
    ("name", "cni", "networks", "wanted"),
    [
        ("aks-annotated", AZURE, [HnsNetwork(id="1", name="azure", type="L2Bridge", pods=True)],
         ("AzureVNET", "AzureVNET", {"win": "l2bridge"}, "platform")),
        ("etcd-services", CALICO, [HnsNetwork(id="1", name="Calico", type="Overlay", pods=True)],
         ("Calico", "calico-ipam", {"win": "overlay"}, "manual")),
    ],
)  # fmt: skip
def test_a_look_into_the_node_tells_what_the_api_does_not(
    name: str, cni: str, networks: list[HnsNetwork], wanted: tuple[Any, ...], tmp_path: Path
) -> None:
    cluster = next(item for item in clusters() if item.name == name)
    with served(cluster, tmp_path) as kube:
        facts = detect(kube)
    host = Host(cni=cni, networks=networks, program=(SERVICES, "v3.16.10"), known=facts)
    found = document.values(host.looked("win"))
    assert (found["cni"], found["ipam"], found["plane"], found["install"]) == wanted
    assert found["calico_on_nodes"]["win"] == "v3.16.10"


def test_a_look_into_the_node_takes_win_bridge_for_what_it_is(tmp_path: Path) -> None:
    cluster = next(item for item in clusters() if item.name == "win-bridge")
    with served(cluster, tmp_path) as kube:
        facts = detect(kube)
    host = Host(
        cni='{"type": "win-bridge", "ipam": {"type": "host-local"}}',
        program=(SERVICES, "v3.30.2"),
        known=facts,
    )
    found = document.values(host.looked("win"))
    assert (found["cni"], found["ipam"], found["plane"], found["install"]) == (
        "win-bridge", "host-local", {"win": "l2bridge"}, "manual",
    )  # fmt: skip
    assert found["undecided"] == ""
    assert not {"ENC-1", "IPAM-1", "NAT-2", "XPOL-11", "BGP-3"} & set(found["applies"].split())
    assert {"CP-1", "DS-3", "XPOL-13", "XPOL-14"} <= set(found["applies"].split())
