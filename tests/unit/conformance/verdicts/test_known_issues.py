# SPDX-License-Identifier: Apache-2.0
"""A known issue of a release explains a violation whose part, versions and symptom fit, and no
other."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import conformance
from conformance.catalog import CatalogError, catalog
from conformance.catalog.known_issues import KnownIssue, known_issues, load
from conformance.expect.explain.between_nodes import Blamed
from conformance.expect.explain.nearest import UDP_ALONE, nearest
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.facts import Fact, Facts
from conformance.model.observation import Verdict
from conformance.verdicts.claims import TestOutcome, claim_outcomes
from conformance.verdicts.decisions import folded
from tests.plugin.stand_in_cluster import facts
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_ins import observation
from tests.unit.conformance.expect.test_resolution import Dns, answered, failing
from tests.unit.conformance.facts.test_vxlan import Cluster

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


def explained(claim: str, *decisions: Decision, on: str = "v3.31.2", told: str = "r") -> list[str]:
    """Names of what explains a claim with these decisions, one result each."""
    results = tuple(
        ClaimResult(claim=claim, verdict=each.verdict, test="t", reason=told, part=each.part,
                    decisions=(replace(each, claim=claim),))
        for each in decisions
    )  # fmt: skip
    test = TestOutcome(test="t", verdict=V.VIOLATED, results=results)
    outcomes = claim_outcomes(catalog(), release(on), [test], whole=False)
    return [issue.name for one in outcomes if one.claim.id == claim for issue in one.known]


STAGED = decision("windows server", SHUT)


def test_a_violation_whose_part_version_and_symptom_fit_is_explained() -> None:
    assert explained("XPOL-14", STAGED) == ["staged policies deny"]


def words(pattern: str) -> list[str]:
    """The plain words of a regular expression that are words of a message and no value."""
    plain = re.split(r"\(\?!.*?\)|\[[^]]*\]|[|.*+?()]+|, | or ", pattern)
    return [text for one in plain if len(text := one.strip(" :;,")) > 4]


@pytest.mark.parametrize("issue", known_issues(), ids=[issue.name for issue in known_issues()])
def test_every_word_of_a_symptom_is_one_that_the_suite_prints(issue: KnownIssue) -> None:
    code = "".join(
        path.read_text(encoding="utf-8") for path in Path(conformance.__path__[0]).rglob("*.py")
    )
    asked = [word for symptom in issue.symptoms for pattern in symptom for word in words(pattern)]
    assert [word for word in asked if word not in code] == []


def test_a_node_without_its_hns_network_is_explained_by_the_line_that_names_it() -> None:
    cluster = Cluster()
    cluster.networks = []
    read = cluster.facts().deviations("w1", "l1")
    wrong = tuple(f"{name}: {fact.value}" for name, fact in read.items())
    path = Attempt(
        source=a_workload(),
        target=a_workload("server", "windows").tcp(80),
        kind=Kind.TCP,
        give_up_after=1.0,
    )
    asks: Any = SimpleNamespace()
    near = nearest(
        asks, path, [observation(path, Verdict.TIMED_OUT)], lambda pods: (),
        lambda source, target: Blamed(wrong=wrong),
    )  # fmt: skip
    shut = replace(decision("linux->windows pod-ip", SHUT), enforced=())
    first = (
        f"CONN-3: linux-1 to windows-2022: expected CONNECTED, observed TIMED_OUT{near.observed}"
    )
    assert "HNS service ends" in explained("CONN-3", shut, told=first)
    assert "HNS service ends" not in explained("CONN-3", shut, told=first.partition(",")[0])


def test_dns_that_does_not_answer_pods_is_explained_where_kube_proxy_keeps_old_addresses() -> None:
    _, decided = failing(lambda asked, _: answered(asked, 0.003 if asked.target else 99.0), Dns())
    (shut,) = [replace(one, source=NODE) for one in decided]
    for version, is_known in (("v1.30.4", True), ("v1.34.1", False)):
        here = replace(facts(), kubernetes_version=Fact(version, "told"))
        names = [issue.name for issue in known_issues() if issue.fits(shut, here)]
        assert ("the cluster's DNS keeps an old address" in names) is is_known


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


@pytest.mark.parametrize(
    ("version", "observed", "names"),
    [
        ("v3.31.2", "no route for the whole block", ["BGP on Windows is not configured"]),
        ("v3.32.1", "no route for the whole block", ["BGP on Windows renders nothing"]),
        ("v3.31.7", "no route for the whole block", []),
        ("v3.31.2", "via 10.0.0.12, which is node linux-2", []),
        ("v3.31.2", "no route for the whole block, via 10.0.0.12, which is node linux-2", []),
    ],
)
def test_a_linux_node_without_routes_to_windows_is_explained_by_windows_nodes_without_bgp(
    version: str, observed: str, names: list[str]
) -> None:
    on_linux = Decision(
        source="", target=LINUX, builds=(), about=(), verdict=V.VIOLATED, reason="r",
        halves=("read",), expected="one route for the whole block", observed=observed,
    )  # fmt: skip
    results = ClaimResult(
        claim="BGP-3", verdict=V.VIOLATED, test="t", reason="r", part="",
        decisions=(replace(on_linux, claim="BGP-3"),),
    )  # fmt: skip
    test = TestOutcome(test="t", verdict=V.VIOLATED, results=(results,))
    bgp = replace(release(version), mode=Fact("bgp", "told"))
    (outcome,) = (
        one
        for one in claim_outcomes(catalog(), bgp, [test], whole=False)
        if one.claim.id == "BGP-3"
    )
    assert [issue.name for issue in outcome.known] == names


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
            "effect must be opens",
        ),
    ],
)
def test_an_entry_that_cannot_be_used_is_refused(text: str, said: str) -> None:
    with pytest.raises(CatalogError, match=said):
        load(text)


def on(kubernetes: str) -> Facts:
    """The stand-in cluster with this Kubernetes."""
    return replace(facts(), kubernetes_version=Fact(kubernetes, "told"))


KUBE_PROXY = [
    ("XSVC-6", "linux backends", ("no connection", "CONNECTED"), "", "v1.26.9", "v1.27.1",
     "internalTrafficPolicy Local ignored"),
    ("XSVC-7", "ClusterIP, linux backends", ("the backends and no other", "not all of them"), "",
     "v1.26.1", "v1.27.1",
     "externalTrafficPolicy Local leads nowhere without a backend on the node"),
    ("CONN-4", "shared windows backends", ("the backends and no other", "not all of them"), "",
     "v1.34.1", "v1.29.1", "pods fail through a Service when another Service over them goes"),
    ("CONN-4", "windows->linux cluster-ip, UDP", ("CONNECTED", "TIMED_OUT"),
     f"observed TIMED_OUT{UDP_ALONE}", "v1.29.3", "v1.34.1",
     "UDP of a Service that has the number for TCP, too"),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "part", "symptom", "told", "has", "mended", "name"), KUBE_PROXY)
def test_a_defect_of_kube_proxy_explains_what_it_does_in_its_releases_alone(
    *, claim: str, part: str, symptom: tuple[str, str], told: str, has: str, mended: str, name: str
) -> None:
    wrong = replace(decision(part, symptom), claim=claim, source=NODE, enforced=())
    issue = next(each for each in known_issues() if each.name == name)
    assert issue.fits(wrong, on(has), told)
    assert not issue.fits(wrong, on(mended), told)
    assert not issue.fits(replace(wrong, claim="CONN-3"), on(has), told)
    assert not told or not issue.fits(wrong, on(has), "observed TIMED_OUT")


@pytest.mark.parametrize(
    ("name", "claim", "part", "symptom", "build"),
    [
        ("session affinity on Server 2022 leads nowhere", "XSVC-3", "",
         ("one backend", "TIMED_OUT"), "20348.2762"),
        ("load balancers stay when a Service has no backend left", "CONN-4",
         "last linux backends away and back", ("no connection", "CONNECTED"), "17763.6414"),
    ],
)  # fmt: skip
def test_a_defect_of_a_build_explains_what_it_does_there_alone(
    name: str, claim: str, part: str, symptom: tuple[str, str], build: str
) -> None:
    wrong = replace(decision(part, symptom), claim=claim, source=NODE, enforced=())
    issue = next(each for each in known_issues() if each.name == name)

    def of(built: str) -> Facts:
        build_of, _, revision = built.partition(".")
        nodes = tuple(
            replace(node, windows_build=(int(build_of), int(revision)))
            if node.name == NODE
            else node
            for node in facts().nodes
        )
        return replace(facts(), nodes=nodes)

    assert issue.fits(wrong, of(build))
    assert not issue.fits(wrong, of("26100.7000"))
    assert not issue.fits(
        replace(wrong, expected="one backend", observed="several backends"), of(build)
    )
