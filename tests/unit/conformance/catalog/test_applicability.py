# SPDX-License-Identifier: Apache-2.0
"""Facts decide which claims, and which parts of them, are about a cluster."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import pytest

from conformance.catalog import (
    Applies,
    CatalogError,
    NotApplicable,
    Undecided,
    applicability,
    catalog,
    conditions,
)
from conformance.catalog.applicability import CHECKS
from conformance.catalog.claims import Conditions
from conformance.model.facts import Fact, Facts
from tests.plugin.stand_in_cluster import facts, node

# --- applicability ----------------------------------------------------------------------------------------------------


def test_every_condition_is_decided() -> None:
    assert {*CHECKS} == {field.name for field in fields(Conditions)}


def test_an_answer_is_kept_with_the_facts_and_no_others() -> None:
    claim, known = catalog()["VXLAN-1"], facts()
    other = replace(known, mode=Fact("bgp", "IPPool"))
    assert applicability(claim, known) is applicability(claim, known)
    assert isinstance(applicability(claim, known), Applies)
    assert isinstance(applicability(claim, other), NotApplicable)
    assert applicability(claim, known, conditions({"modes": ["bgp"]})) != applicability(
        claim, known
    )


def test_facts_with_some_windows_nodes_are_the_same_object_each_time() -> None:
    known = facts(windows=2)
    one, other = (node.name for node in known.by_os("windows"))
    alone = known.with_windows((one,))
    assert [node.name for node in alone.by_os("windows")] == [one]
    assert alone.by_os("linux") == known.by_os("linux")
    assert known.with_windows((one,)) is alone
    assert known.with_windows((one, other)) is known


def outcome(ident: str, **changes: Any) -> Any:
    return applicability(catalog()[ident], facts(**changes))


@pytest.mark.parametrize(
    ("ident", "changes", "expected"),
    [
        ("VXLAN-1", {}, Applies),
        ("VXLAN-1", {"mode": "bgp"}, NotApplicable),
        ("VXLAN-1", {"mode": None}, Undecided),
        ("BGP-1", {}, NotApplicable),
        ("EKS-3", {"platform": "eks", "calico_version": "v3.19.4"}, Applies),
        ("EKS-3", {"platform": "eks", "calico_version": "v3.20.0"}, NotApplicable),
        ("PLAT-11", {"calico_version": "v3.17.1", "platform": "aks"}, Applies),
        ("PLAT-11", {"calico_version": "v3.19.0"}, NotApplicable),
        ("PLAT-2", {"calico_version": "v3.17.1"}, NotApplicable),
        ("INST-2", {"calico_version": "v3.26.4"}, Applies),
        ("INST-2", {}, NotApplicable),
        ("ENC-7", {"calico_version": "v3.17.0"}, Applies),
        ("ENC-7", {"calico_version": "v3.18.0"}, NotApplicable),
        ("CNI-1", {"cni": "AzureVNET"}, Applies),
        ("DS-4", {"mode": "bgp", "datastore": "etcd"}, NotApplicable),
        ("XOP-1", {"install": "manual"}, NotApplicable),
        ("SVC-2", {}, Applies),
        ("SVC-2", {"dsr": False}, NotApplicable),
        ("SVC-2", {"dsr": None}, Applies),
        ("SVC-1", {}, NotApplicable),
        ("SVC-1", {"dsr": None}, Applies),
        ("SVC-1", {"dsr": False}, Applies),
        ("SVC-1", {"windows": 0}, NotApplicable),
        ("XLC-3", {}, NotApplicable),
    ],
)  # fmt: skip
def test_facts_decide_whether_a_claim_is_about_a_cluster(
    ident: str, changes: dict[str, Any], expected: type
) -> None:
    assert isinstance(outcome(ident, **changes), expected), outcome(ident, **changes)


def test_a_range_of_calico_is_that_of_the_windows_nodes_own_calico() -> None:
    own = {
        "win-0": Fact("v3.22.5", "its image"),
        "win-1": Fact("v3.31.2", "its image"),
        "linux-1": Fact("v3.31.2", "-"),
    }
    mixed = replace(facts(), calico_on_nodes=own)
    claim = catalog()["XSVC-1"]  # from v3.23 on
    assert isinstance(applicability(claim, mixed), Applies)
    linux, (first, second) = mixed.by_os("linux"), mixed.by_os("windows")
    assert isinstance(applicability(claim, replace(mixed, nodes=(*linux, first))), NotApplicable)
    assert isinstance(applicability(claim, replace(mixed, nodes=(*linux, second))), Applies)


def with_builds(*builds: tuple[int, int] | None, dsr: bool | None = True) -> Any:
    nodes = [node(f"win-{number}", "windows", build, dsr) for number, build in enumerate(builds)]
    return replace(facts(windows=0), nodes=tuple(nodes))


@pytest.mark.parametrize(
    ("ident", "builds", "expected"),
    [
        ("SVC-1", [(17763, 1431)], Applies),
        ("SVC-2", [(17763, 1431)], NotApplicable),
        ("SVC-2", [(17763, 1432)], Applies),
        ("SVC-1", [(20348, 2762), (17763, 1000)], Applies),
        ("VXLAN-6", [(17763, 1000)], Applies),
        ("VXLAN-6", [(17763, 1432)], NotApplicable),
        ("XLC-3", [(20348, 2400)], Applies),
        ("XLC-3", [(20348, 2762)], NotApplicable),
        ("XLC-3", [None], Undecided),
        ("HOST-3", [(17763, 1397)], Applies),
        ("HOST-3", [(20348, 2762)], NotApplicable),
        ("HOST-4", [(17763, 1397)], NotApplicable),
    ],
)
def test_builds_decide_too(ident: str, builds: list[Any], expected: type) -> None:
    assert isinstance(applicability(catalog()[ident], with_builds(*builds)), expected)


def test_a_denial_names_condition_and_fact() -> None:
    assert str(outcome("BGP-1")) == "it is about mode bgp; here: mode vxlan (stand-in)"


def test_a_version_that_cannot_be_told_is_judged_as_the_newest_and_that_is_said() -> None:
    applies = outcome("XOP-1", calico_version="master")
    assert isinstance(applies, Applies)
    assert "judged as the newest" in applies.assumed[0]
    assert "judged as the newest" in str(outcome("INST-2", calico_version="master"))
    assert "judged as the newest" in str(outcome("INST-2", calico_version=None))


def test_a_version_on_windows_nodes_that_is_not_known_decides_nothing_about_windows() -> None:
    unknown = outcome("XOP-1", calico_version=None)
    assert isinstance(unknown, Undecided)
    assert unknown.look
    assert "Calico's version on Windows nodes is not known" in str(unknown)
    assert "--windows-calico-version" in unknown.remedy


# --- conditions of parts ----------------------------------------------------------------------------------------------


def part_outcome(wanted: dict[str, Any], cluster: Facts, ident: str = "CONN-3") -> Any:
    return applicability(catalog()[ident], cluster, conditions(wanted))


@pytest.mark.parametrize(
    ("wanted", "known", "expected"),
    [
        ({"modes": ["vxlan"]}, {}, Applies),
        ({"modes": ["bgp"]}, {}, NotApplicable),
        ({"ipam": ["calico-ipam"]}, {"ipam": Fact("calico-ipam", "-")}, Applies),
        ({"ipam": ["calico-ipam"]}, {"ipam": Fact("host-local", "-")}, NotApplicable),
        ({"ipam": ["calico-ipam"]}, {"ipam": Fact(None, "-")}, Undecided),
        *(
            ({name: wanted}, {name: Fact(known, "-")}, expected)
            for name in ("single_network", "mesh", "dual_stack")
            for wanted in (True, False)
            for known, expected in ((wanted, Applies), (not wanted, NotApplicable), (None, Undecided))
        ),
    ],
)  # fmt: skip
def test_a_part_has_conditions_of_its_own(
    wanted: dict[str, Any], known: dict[str, Any], expected: type
) -> None:
    answer = part_outcome(wanted, replace(facts(), **known))
    assert isinstance(answer, expected), answer


@pytest.mark.parametrize("name", ["ipam", "windows_plane", "single_network", "mesh", "dual_stack"])
def test_what_nobody_has_read_is_never_taken_for_another_sort_of_cluster(name: str) -> None:
    wanted = {"ipam": ["calico-ipam"], "windows_plane": ["overlay"]}.get(name, True)
    unread = replace(facts(), ipam=Fact(None, "-"), single_network=Fact(None, "-"))
    assert isinstance(part_outcome({name: wanted}, unread), Undecided)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (["host-local"], NotApplicable),
        (["host-local", "calico-ipam"], Applies),
        (["host-local", None], Undecided),
    ],
)
def test_windows_nodes_own_ipam_counts_before_the_clusters(
    own: list[str | None], expected: type
) -> None:
    nodes = tuple(
        replace(
            node(f"win-{number}", "windows", (20348, 2762)),
            ipam=Fact(value, "-"),
            plane=Fact(value, "-"),
        )
        for number, value in enumerate(own)
    )
    cluster = replace(facts(windows=0), ipam=Fact("calico-ipam", "Linux"), nodes=nodes)
    assert isinstance(part_outcome({"ipam": ["calico-ipam"]}, cluster), expected)
    of_linux = catalog()["PLAT-4"]  # needs no Windows node
    assert isinstance(
        applicability(of_linux, cluster, conditions({"ipam": ["calico-ipam"]})), Applies
    )


@pytest.mark.parametrize(
    ("planes", "expected"),
    [
        (["overlay"], Applies),
        (["l2bridge"], NotApplicable),
        (["l2bridge", None], Undecided),
        ([], NotApplicable),
    ],
)
def test_a_plane_is_that_of_the_windows_nodes(planes: list[str | None], expected: type) -> None:
    nodes = tuple(
        replace(node(f"win-{at}", "windows"), plane=Fact(value, "-"))
        for at, value in enumerate(planes)
    )
    cluster = replace(facts(windows=0), nodes=nodes)
    assert isinstance(part_outcome({"windows_plane": ["overlay"]}, cluster), expected)


def test_the_condition_of_a_claim_counts_before_that_of_its_part() -> None:
    answer = part_outcome({"modes": ["bgp"]}, facts(mode="bgp"), "VXLAN-1")
    assert str(answer) == "it is about mode vxlan; here: mode bgp (stand-in)"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"modus": ["vxlan"]}, "unknown key 'modus'"),
        ({"modes": ["overlay"]}, "modes ['overlay']: expected some of vxlan"),
        ({"windows_plane": ["vxlan"]}, "expected some of overlay, l2bridge"),
        ({"mesh": "on"}, "expected true or false"),
        ({"calico": "3.27"}, "not a range"),
        ({"modes": "vxlan"}, "expected a list"),
        ({"modes": [len]}, "expected words, lists of words"),
    ],
)
def test_a_parts_conditions_are_the_catalogs_words_and_no_others(
    wanted: dict[str, Any], words: str
) -> None:
    with pytest.raises(CatalogError, match=re.escape(words)):
        conditions(wanted)


def test_conditions_are_written_as_they_are_read() -> None:
    for claim in catalog().values():
        assert conditions(claim.applies.plain) == claim.applies, claim.id
    assert str(conditions({"modes": ["vxlan", "bgp"], "calico": ">=3.27", "dsr": True})) == (
        "modes vxlan, bgp; calico >=3.27; dsr true"
    )


@pytest.mark.parametrize(
    ("own", "missing"),
    [
        ({}, "modes vxlan, mixed; dsr true"),
        ({"modes": ["vxlan"]}, "dsr true"),
        ({"modes": ["vxlan", "bgp"], "dsr": True}, "modes vxlan, mixed"),
        ({"modes": ["mixed"], "dsr": False}, "dsr true"),
        ({"modes": ["vxlan", "mixed"], "dsr": True}, ""),
    ],
)
def test_a_condition_is_implied_by_the_same_or_a_narrower_one(
    own: dict[str, Any], missing: str
) -> None:
    demanded = conditions({"modes": ["vxlan", "mixed"], "dsr": True})
    assert str(conditions(own).missing(demanded)) == missing
