# SPDX-License-Identifier: Apache-2.0
"""What is known of a release explains a violation whose part, versions and symptom fit, and no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.catalog import CatalogError, catalog
from conformance.catalog.known_issues import known_issues, load
from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.facts import Fact, Facts
from conformance.verdicts.claims import TestOutcome, claim_outcomes
from conformance.verdicts.decisions import folded
from tests.plugin.stand_in_cluster import facts

V = ClaimVerdict
NODE = next(node.name for node in facts().by_os("windows"))
LINUX = next(node.name for node in facts().by_os("linux"))
OPENED, SHUT = ("TIMED_OUT", "CONNECTED"), ("CONNECTED", "TIMED_OUT")


def release(version: str) -> Facts:
    """The stand-in cluster with this Calico on all nodes."""
    told = Fact(version, "told")
    return replace(facts(), calico_version=told, calico_on_nodes={})


def decision(
    part: str, symptom: tuple[str, str], *, at: str = NODE, verdict: V = V.VIOLATED
) -> Decision:
    expected, observed = symptom
    return Decision(
        source=LINUX, target=at, builds=(), about=(), verdict=verdict, reason="r", halves=("closed",), part=part,
        expected=expected, observed=observed, enforced=(at,),
    )  # fmt: skip


def explained(claim: str, *decisions: Decision, on: str = "v3.31.2") -> list[str]:
    """Names of what explains a claim with these decisions, one result each."""
    results = tuple(
        ClaimResult(claim=claim, verdict=each.verdict, test="t", reason="r", part=each.part,
                    decisions=(replace(each, claim=claim),))
        for each in decisions
    )  # fmt: skip
    test = TestOutcome(test="t", verdict=V.VIOLATED, results=results)
    outcomes = claim_outcomes(catalog(), release(on), [test], whole=False)
    return [issue.name for one in outcomes if one.claim.id == claim for issue in one.known]


STAGED = decision("windows server", SHUT)


def test_a_violation_whose_part_version_and_symptom_fit_is_explained() -> None:
    assert explained("XPOL-14", STAGED) == ["staged policies deny"]


def test_the_line_says_may_be_and_what_to_do() -> None:
    text = next(str(issue) for issue in known_issues() if issue.name == "staged policies deny")
    assert text.startswith("may be known upstream since v3.30.0: a staged policy denies on Windows")
    assert "; workaround: let no staged policy select" in text
    assert "; heals: removing the staged policy" in text


def test_what_was_read_of_the_whole_cluster_is_explained_though_it_names_no_node() -> None:
    bgp = replace(
        facts(),
        calico_version=Fact("v3.31.2", "told"),
        mode=Fact("bgp", "told"),
        ipam=Fact("host-local", "told"),
    )
    read = replace(
        decision("blocks", ("none", "192.168.0.64/26")), source="", target="", enforced=()
    )
    issue = next(each for each in known_issues() if each.name == "host-local with BGP")
    assert issue.fits(replace(read, claim="DS-4"), bgp)
    assert not issue.fits(replace(read, claim="DS-4", target=LINUX), bgp)


@pytest.mark.parametrize(
    ("claim", "wrong", "version"),
    [
        ("XPOL-14", decision("windows server", OPENED), "v3.31.2"),
        ("XPOL-14", decision("linux server", SHUT, at=LINUX), "v3.31.2"),
        ("XPOL-12", decision("windows server", OPENED), "v3.31.2"),
        ("XPOL-6", decision("deny before allow, windows server", OPENED), "v3.31.2"),
        ("XPOL-6", decision("Pass of one port, windows server", SHUT), "v3.31.2"),
        ("XPOL-14", decision("windows server", ("", "")), "v3.31.2"),
    ],
)
def test_another_symptom_node_version_or_part_is_not(
    claim: str, wrong: Decision, version: str
) -> None:
    assert explained(claim, wrong, on=version) == []


def test_a_second_defect_does_not_hide_behind_a_known_one() -> None:
    other = decision("deny before allow, windows server", OPENED)
    known = decision("Pass of one port, windows server", OPENED)
    assert explained("XPOL-6", known) == ["Pass with ports opens any port"]
    assert explained("XPOL-6", known, other) == []


def test_what_is_right_beside_it_does_not_matter() -> None:
    right = decision("windows server", SHUT, at=LINUX, verdict=V.CONFIRMED)
    assert explained("XPOL-14", STAGED, right) == ["staged policies deny"]


def test_two_that_look_otherwise_between_two_nodes_are_both_kept() -> None:
    (one,) = folded([decision("p", OPENED), decision("p", SHUT), decision("p", OPENED)])
    assert one.symptoms == [OPENED, SHUT]
    assert one.opens
    assert explained("XPOL-14", replace(one, part="windows server")) == []


def test_an_opening_is_one_only_where_packets_get_there() -> None:
    assert decision("p", OPENED).opens
    assert not decision("p", SHUT).opens
    assert not decision("p", ("TIMED_OUT", "UNREACHABLE")).opens
    assert not decision("p", OPENED, verdict=V.INCONCLUSIVE).opens


@pytest.mark.parametrize(
    ("platform", "version", "explains"),
    [
        ("eks", "v3.27.4", True),
        ("aks", "v3.27.0", True),
        ("eks", "v3.28.0", False),
        ("self-managed", "v3.27.4", False),
    ],
)
def test_felix_that_was_told_of_the_providers_networks_explains_closed_pods(
    platform: str, version: str, explains: bool
) -> None:
    here = replace(
        release(version),
        platform=Fact(platform, "told"),
        cni=Fact("Calico", "told"),
        install=Fact("operator", "told"),
    )
    one = replace(decision("linux->windows pod-ip", SHUT), claim="CONN-3", enforced=())
    names = [issue.name for issue in known_issues() if issue.fits(one, here)]
    assert ("KUBE_NETWORK by provider" in names) is explains


def test_two_ranges_of_bgp_on_windows_leave_out_what_lies_between() -> None:
    bgp = [issue for issue in known_issues() if "calico#11714" in issue.source]
    assert [str(issue.applies.calico) for issue in bgp] == [">=3.30.3 <3.30.8", ">=3.31 <3.31.5"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {name: n, odd: 1}", "n: odd"),
        ("- {name: n}", "n: no since"),
        (
            "- {name: n, since: s, what: w, workaround: w, heals: h, source: s, claims: {NO-1: ['*']}, symptoms: [x]}",
            "no claim NO-1",
        ),
        (
            "- {name: n, since: s, what: w, workaround: w, heals: h, source: s, claims: {POL-1: ['*']}, symptoms: [x],"
            " effect: odd}",
            "effect is opens",
        ),
    ],
)
def test_an_entry_that_cannot_be_used_is_refused(text: str, said: str) -> None:
    with pytest.raises(CatalogError, match=said):
        load(text)
