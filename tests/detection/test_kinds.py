# SPDX-License-Identifier: Apache-2.0
"""The packaged table and the texts about kinds of clusters agree with the present rows and with
detection."""

from __future__ import annotations

import re

import pytest
import yaml

from conformance import cli
from conformance.catalog import NotApplicable, applicability, catalog
from conformance.catalog.kinds import DATA
from conformance.model.facts import Facts
from tests.detection import kinds
from tests.detection.table import RED, shipped

PARTS = DATA.parents[1] / "qualify" / "data" / "parts.yaml"


@pytest.fixture(scope="module")
def detected() -> dict[str, Facts]:
    return kinds.detected()


@pytest.fixture(scope="module")
def expected() -> dict[str, dict[str, object]]:
    return kinds.expected()


def test_the_packaged_table_is_current(expected: dict[str, dict[str, object]]) -> None:
    command = "python -m tests.detection.kinds writes it anew"
    written = yaml.safe_load(DATA.read_text(encoding="utf-8"))["vxlan"]["claims"]
    for entry in expected.values():  # a claim that was just begun is in neither
        claims = entry["claims"]
        assert isinstance(claims, dict)
        entry["claims"] = {
            claim: said for claim, said in claims.items() if claim in written or said != kinds.TEST
        }
    assert kinds.packaged(expected) == DATA.read_text(encoding="utf-8"), command


def test_a_kind_with_a_profile_says_what_its_clean_row_says(
    expected: dict[str, dict[str, object]],
) -> None:
    clean, told = shipped().clean_of("small"), expected["small"]["claims"]
    assert isinstance(told, dict)
    assert {claim: told[claim].partition(":")[0] for claim in clean} == clean
    assert set(told) <= set(catalog())


OTHER_CLUSTER = {"manual", "1903", "blog", "20H2", "docker", "eks-calico"}
"""Kinds whose profile has another mode, or another release, than their objects."""
ON_THE_LAB = {"XPOL-19", "BGP-8"}
"""Claims about kube-proxy in pods, and about no mesh: the labs have these, the objects do not."""


@pytest.mark.parametrize(
    "name",
    sorted(
        name for name, kind in kinds.KINDS.items() if kind.profile and name not in OTHER_CLUSTER
    ),
)
def test_the_table_expects_nothing_of_a_claim_that_is_not_about_the_cluster(
    name: str, detected: dict[str, Facts]
) -> None:
    kind = kinds.KINDS[name]
    facts = kinds.built(detected, kind)
    assert facts is not None
    clean = shipped().clean_of("" if kind.profile == "default" else kind.profile)
    about = {claim: applicability(catalog()[claim], facts) for claim in clean}
    stale = {
        claim: verdict
        for claim, verdict in clean.items()
        if isinstance(about[claim], NotApplicable) and verdict != "NOT_APPLICABLE"
    }
    assert set(stale) <= ON_THE_LAB, stale


def test_every_claim_with_a_test_has_a_row_in_which_it_holds_and_one_in_which_it_does_not() -> None:
    """A check that nothing turns red, or nothing green, is no check.

    A known issue that can happen is red where it is there.
    """
    table = shipped()
    profiles = [table.clean_of(name) for name in ("", *table.profiles)]
    lacking = {}
    for claim, known in demanded_parts().items():
        can_happen = catalog()[claim].modality == "can happen"
        there = {
            verdict
            for row in table.rows
            for verdict in (row.expect.get(claim), row.on_node.get(claim))
            if verdict
        }
        health = {clean.get(claim) for clean in profiles}
        holds = {"CONFIRMED", "NOT_OBSERVED"} & (health | there)
        red = {*RED, *(["CONFIRMED"] if can_happen else [])} & there
        if known and not (holds and red):
            lacking[claim] = "red" if holds else "green"
    assert lacking == {
        "PLAT-11": "red"
    }  # its table has no cluster that it is about and that is otherwise


def demanded_parts() -> dict[str, object]:
    """Claims that have a test, with their parts."""
    found: dict[str, object] = yaml.safe_load(PARTS.read_text(encoding="utf-8"))
    return found


def test_every_profile_of_the_table_is_known_or_is_a_release_as_shipped() -> None:
    known = {kind.profile for kind in kinds.KINDS.values()}
    others = {name for name in shipped().profiles if name not in known}
    assert others == {
        "aks-no-dsr",
        "full-nodes",
        "canal-host-gw-aws",
        "eks-vpc-no-dsr",
        "cloud-win-bridge",
        "vxlan-v3.30",
        "ten-nodes",
        "bgp-host-local-as-shipped",
        "bgp-no-dsr",
        "bgp-v3.31.2-as-shipped",
        "bgp-v3.32-as-shipped",
        "manual-bgp",
        "two-versions",
        "v3.29-as-shipped",
        "v3.31-as-shipped",
        "v3.32-as-shipped",
        "v3.33-as-shipped",
    }


def test_the_program_lists_kinds_and_tells_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["kinds"]) == 0
    assert re.search("^bgp +Calico BGP by operator", capsys.readouterr().out, re.MULTILINE)
    assert cli.main(["claims", "--kind", "bgp"]) == 0
    out = capsys.readouterr().out
    assert (
        "  ENC-6     CONFIRMED           BGP peering is combined with no overlay, neither VXLAN nor IPIP."
        in out
    )
    assert "  VXLAN-1   NOT_APPLICABLE      it is about mode vxlan" in out
    assert cli.main(["claims", "--kind", "openshift"]) == 0
    assert (
        "waits for a profile the suite refuses OpenShift with exit code 7"
        in capsys.readouterr().out
    )


def test_a_kind_without_a_profile_says_why() -> None:
    silent = {name for name, kind in kinds.KINDS.items() if not kind.profile and not kind.why}
    assert not silent
    assert all(kind.objects for kind in kinds.KINDS.values())


def test_an_unknown_kind_is_named_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["claims", "--kind", "gce"]) == 4
    assert "kinds gce: no such kind; the kinds are vxlan, small," in capsys.readouterr().err


def test_bgp_decides_most_claims_of_the_first_and_the_page_says_why_not_each_other(
    expected: dict[str, dict[str, object]],
) -> None:
    clean = shipped().clean_of("bgp")
    assert len([claim for claim in kinds.FIRST if clean.get(claim) in kinds.DECIDED]) >= 60
    page = kinds.page(expected)
    assert all(f"## What {lab} decides" in page for lab in kinds.LABS.values())


SINCE_THE_FIRST = {
    "BGP-7", "ENC-8", "FL-3", "HOST-4", "IPAM-13", "IPAM-14", "PLAT-12", "PLAT-13", "PLAT-14",
    "VXLAN-11", "VXLAN-12", "XPOL-18", "XPOL-19", "XPOL-20", "XPOL-21", "XPOL-22", "XSVC-5",
    "XVX-3", "XVX-4",
}  # fmt: skip
"""Claims that came after the first 140 and before the routed networks."""
AT_LEAST = {
    "aks-operator": 64,
    "eks": 62,
    "cloud-routes": 62,
    "win-bridge": 52,
    "flannel-host-gw": 50,
}


@pytest.mark.parametrize("kind", AT_LEAST)
def test_a_routed_kind_decides_enough_of_the_claims_that_were_there_before_it(kind: str) -> None:
    told = yaml.safe_load(DATA.read_text(encoding="utf-8"))[kind]["claims"]
    before = {*kinds.FIRST, *SINCE_THE_FIRST}
    assert len(before) == 159
    decided = [claim for claim in before if told[claim] in kinds.DECIDED]
    assert len(decided) >= AT_LEAST[kind]
