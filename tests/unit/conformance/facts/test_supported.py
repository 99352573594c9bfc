# SPDX-License-Identifier: Apache-2.0
"""The documents' lists are looked up by version; a version without an entry decides nothing; every
row names its source."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml

from conformance.catalog import load, tables
from conformance.catalog.loading import DATA
from conformance.facts.supported import Supported
from conformance.model.facts import Fact
from tests.unit.conformance.facts.test_objects import facts, values

PLACE = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{12,40}:\S+")


def supported(calico: str | None = "v3.31.2", **more: str | None) -> Supported:
    known = {
        "platform": "self-managed",
        "cni": "Calico",
        "mode": "vxlan",
        "kubernetes_version": "v1.34.1",
    } | more
    found: dict[str, Any] = {name: Fact(value, "p") for name, value in known.items()}
    return Supported(replace(facts(), calico_version=Fact(calico, "v"), **found))


@pytest.mark.parametrize(
    ("table", "source"), [(name, row.source) for name, rows in tables().items() for row in rows]
)
def test_every_row_says_where_it_was_read(table: str, source: str) -> None:
    documents = yaml.safe_load((DATA / "documents.yaml").read_text(encoding="utf-8"))["documents"]
    document, _, versions = source.partition(" ")
    assert PLACE.fullmatch(source) or (
        document in documents and re.fullmatch(r"v3[.]\d+-v3[.]\d+", versions)
    ), table
    assert load(DATA)


def test_a_listed_platform_network_and_release_are_listed() -> None:
    one = supported()
    assert values(one.platform() | one.network() | one.kubernetes()) == {
        "the platform": "listed", "the network of Windows pods": "listed", "the release of Kubernetes": "listed"
    }  # fmt: skip


@pytest.mark.parametrize("platform", ["k3s", "gke", "kind", "mke"])
def test_another_platform_is_named_with_those_that_are_listed(platform: str) -> None:
    (found,) = supported(platform=platform).platform().values()
    assert str(found.value).startswith(f"{platform}, but listed: self-managed, ")


def test_calicos_own_plugin_on_eks_was_listed_once() -> None:
    assert list(values(supported("v3.19.4", platform="eks").network()).values()) == ["listed"]
    (today,) = values(supported(platform="eks").network()).values()
    assert today == "eks: Calico in vxlan, but listed: AmazonVPC in policy-only"


@pytest.mark.parametrize(
    ("calico", "cni", "platform", "listed"),
    [
        ("v3.31.2", "win-bridge", "self-managed", True),
        ("v3.31.2", "win-bridge", "aws", True),
        ("v3.20.1", "win-bridge", "gce", True),
        ("v3.16.10", "win-bridge", "self-managed", True),
        ("v3.16.10", "flannel", "self-managed", True),
        ("v3.31.2", "flannel", "self-managed", False),
        ("v3.31.2", "win-bridge", "eks", False),
    ],
)
def test_networks_of_cloud_providers_and_static_routes_are_listed_where_the_documents_have_them(
    calico: str, cni: str, platform: str, listed: bool
) -> None:
    there = supported(calico, cni=cni, platform=platform, mode="policy-only")
    (found,) = values(there.network()).values()
    assert (found == "listed") is listed


def test_an_unknown_fact_and_a_version_that_no_table_has_decide_nothing() -> None:
    assert list(values(supported(mode=None).network()).values()) == [None]
    (old,) = supported("v3.19.4").kubernetes().values()
    assert old.value is None
    assert old.source == "the table has no row for Calico v3.19.4 (v)"


def test_without_calicos_version_no_row_is_the_right_one() -> None:
    one = supported(None)
    for found in (one.platform(), one.network(), one.kubernetes(), one.unsupported()):
        (fact,) = found.values()
        assert fact == Fact(None, "Calico's version is not known: v")


def test_a_release_of_kubernetes_counts_without_its_patch() -> None:
    assert list(values(supported(kubernetes_version="v1.35.9+rke2r1").kubernetes()).values()) == [
        "listed"
    ]
    (old,) = values(supported(kubernetes_version="v1.31.0").kubernetes()).values()
    assert old == "1.31, but listed: 1.32, 1.33, 1.34, 1.35"


def test_an_unsupported_platform_is_one_that_the_documents_name() -> None:
    assert list(values(supported("v3.17.0", platform="aks").unsupported()).values()) == ["listed"]
    assert list(values(supported("v3.17.0", platform="self-managed").unsupported()).values()) == [
        "not named"
    ]


@pytest.mark.parametrize(
    ("release", "build", "value"),
    [
        ("v1.34.2+rke2r1", 20348, "listed"),
        ("v1.34.1", 26100, "26100, but listed: 17763, 19042, 20348"),
        ("v1.18.20", 18362, "listed"),
        ("v1.20.1", 18362, "18362, but listed: 17763, 18363, 19041"),
        ("v1.22.17", 20348, "20348, but listed: 17763, 19041, 19042"),
        ("v1.35.0", 20348, None),
        ("v1.21.0", 17763, None),
        (None, 20348, None),
    ],
)
def test_a_build_is_one_that_the_release_of_kubernetes_lists(
    release: str | None, build: int, value: str | None
) -> None:
    one = supported(kubernetes_version=release)
    windows = one.facts.by_os("windows")[0]
    nodes = (replace(windows, windows_build=(build, 1)),)
    there = Supported(replace(one.facts, nodes=nodes))
    assert values(there.windows_build(windows.name)) == {f"build of node {windows.name}": value}
