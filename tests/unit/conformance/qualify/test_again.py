# SPDX-License-Identifier: Apache-2.0
"""Two runs of one test: the worse decision counts, and a later decision replaces only an
undecided one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import UsageProblem
from conformance.model.claim import ClaimResult
from conformance.model.codec import from_plain, to_plain
from conformance.model.facts import Facts
from conformance.model.installed import Component, Installed
from conformance.model.verdict import ClaimKind, ClaimVerdict
from conformance.qualify.again import differences, merged, to_run_again, together
from conformance.qualify.stored import parse
from tests.unit.conformance.builders import a_windows_node, some_facts
from tests.unit.conformance.qualify.reports import NEW, OLD, decided, report, undecided


def both(
    before: dict[str, Any], now: dict[str, Any], kind: ClaimKind = ClaimKind.CAPABILITY
) -> ClaimResult:
    first, second = (from_plain(ClaimResult, item) for item in (before, now))
    (result,) = merged([first], [second], {first.claim: kind})
    return result


def verdicts(result: ClaimResult) -> dict[str, str]:
    return {
        decision.about[0] if decision.about else "": str(decision.verdict)
        for decision in result.decisions
    }


@pytest.mark.parametrize(
    ("before", "now", "counts"),
    [
        ("VIOLATED", "CONFIRMED", "VIOLATED"), ("CONFIRMED", "VIOLATED", "VIOLATED"),
        ("UNMET", "CONFIRMED", "UNMET"), ("INCONCLUSIVE", "CONFIRMED", "CONFIRMED"),
        ("NOT_RUN", "CONFIRMED", "CONFIRMED"), ("NOT_RUN", "INCONCLUSIVE", "INCONCLUSIVE"),
        ("INCONCLUSIVE", "NOT_RUN", "INCONCLUSIVE"), ("VIOLATED", "NOT_RUN", "VIOLATED"),
        ("VIOLATED", "INCONCLUSIVE", "VIOLATED"), ("CONFIRMED", "INCONCLUSIVE", "INCONCLUSIVE"),
        ("CONFIRMED", "NOT_RUN", "CONFIRMED"), ("INCONCLUSIVE", "VIOLATED", "VIOLATED"),
    ],
)  # fmt: skip
def test_what_counts_of_an_earlier_and_a_later_verdict(before: str, now: str, counts: str) -> None:
    assert together(ClaimVerdict(before), ClaimVerdict(now), ClaimKind.CAPABILITY) == counts
    result = both(decided("DEMO-7", {NEW: before}), decided("DEMO-7", {NEW: now}))
    assert result.verdict == counts
    assert verdicts(result) == {NEW: counts}


def test_a_limitation_that_one_run_still_has_counts_before_lifted() -> None:
    result = both(
        decided("XSVC-4", {NEW: "CONFIRMED"}),
        decided("XSVC-4", {NEW: "LIFTED"}),
        ClaimKind.LIMITATION,
    )
    assert result.verdict == "CONFIRMED"
    assert result.reason.startswith("FLAKY (CONFIRMED, LIFTED): ")


def test_each_build_keeps_its_worse_decision() -> None:
    before = decided("DEMO-7", {OLD: "VIOLATED", NEW: "INCONCLUSIVE"})
    result = both(before, decided("DEMO-7", {OLD: "CONFIRMED", NEW: "CONFIRMED"}))
    assert verdicts(result) == {OLD: "VIOLATED", NEW: "CONFIRMED"}
    assert result.verdict == "VIOLATED"


def test_a_node_that_the_later_run_does_not_reach_keeps_what_was_left_open_there() -> None:
    before = decided("DEMO-7", {OLD: "INCONCLUSIVE", NEW: "INCONCLUSIVE"})
    result = both(before, decided("DEMO-7", {NEW: "CONFIRMED"}))
    assert verdicts(result) == {OLD: "INCONCLUSIVE", NEW: "CONFIRMED"}
    assert result.verdict == "INCONCLUSIVE"


def test_what_was_open_between_other_nodes_of_a_build_is_settled_by_a_decision_about_that_build() -> (
    None
):
    before = decided("DEMO-7", {NEW: "NOT_RUN"})
    before["decisions"][0]["source"] = ""
    assert both(before, decided("DEMO-7", {NEW: "CONFIRMED"})).verdict == "CONFIRMED"


def test_error_that_belongs_to_no_node_gives_way_to_a_decision() -> None:
    assert (
        both(undecided("DEMO-7", "INCONCLUSIVE"), decided("DEMO-7", {NEW: "CONFIRMED"})).verdict
        == "CONFIRMED"
    )
    assert (
        both(undecided("DEMO-7", "VIOLATED"), decided("DEMO-7", {NEW: "CONFIRMED"})).verdict
        == "VIOLATED"
    )


TESTS = [{"test": "t::a", "verdict": "VIOLATED"}, {"test": "t::b", "verdict": "CONFIRMED"}]
IDENTIFIED = {"suite": {"catalog": "d"}, "installed": {"cluster_uid": "u"}, "tests": TESTS}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"schema_version": "1"}, "does not name its cluster and catalog"),
        ({"installed": {"cluster_uid": ""}}, "does not name its cluster and catalog"),
        ({"suite": {"catalog": "e"}}, "judged by another catalog"),
        ({"tests": []}, "it lists no tests; run everything"),
        ({"tests": TESTS[1:]}, "nothing to run again"),
    ],
)
def test_a_report_that_cannot_be_continued_is_refused_in_one_line(
    change: dict[str, Any], expected: str
) -> None:
    plain = dict(report([]).plain) | IDENTIFIED
    assert to_run_again(parse(plain, "r"), "d") == ("t::a",)
    with pytest.raises(UsageProblem, match=expected):
        to_run_again(parse(plain | change, "r"), "d")


def test_the_catalogs_of_a_report_and_of_the_suite_are_named_by_their_first_twelve_digits() -> None:
    theirs, ours = "0123456789abcdef", "fedcba9876543210"
    plain = dict(report([]).plain) | IDENTIFIED | {"suite": {"catalog": theirs}}
    with pytest.raises(
        UsageProblem, match=r"\(0123456789ab; this suite has fedcba987654\); use the suite"
    ):
        to_run_again(parse(plain, "r"), ours)


def a_component(version: str, container: str = "felix", digest: str = "") -> Component:
    return Component(
        workload="calico-node",
        container=container,
        image="i",
        version=version,
        digest=digest,
        nodes=("n",),
    )


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        pytest.param({}, {}, [], id="the same"),
        pytest.param(
            {"uid": "u2", "calico": "v3.30.0"},
            {},
            ["the clusters differ: the UID of kube-system is u1 now, u2 in the report"],
            id="another cluster",
        ),
        pytest.param(
            {"uid": "u2"},
            {"uid": ""},
            ["the clusters differ: the UID of kube-system is unknown now, u2 in the report"],
            id="an unknown cluster",
        ),
        pytest.param(
            {"calico": "v3.30.0", "revision": 1},
            {},
            [
                "Calico version is v3.31.2 now, v3.30.0 in the report",
                "node w1: Windows build 20348.2762 now, Windows build 20348.1 in the report",
            ],
            id="an update",
        ),
        pytest.param(
            {},
            {"node": "w2"},
            ["node w1: no such Windows node now, Windows build 20348.2762 in the report"],
            id="another node",
        ),
        pytest.param(
            {"components": [a_component("v1"), a_component("v1", "old")]},
            {"components": [a_component("v2"), a_component("v1", "new")]},
            [
                "calico-node, container felix: v2 now, v1 in the report",
                "calico-node, container new: v1 now, not running in the report",
                "calico-node, container old: not running now, v1 in the report",
            ],
            id="other components",
        ),
        pytest.param(
            {"components": [a_component("v1", digest="sha256:0123456789abcd")]},
            {"components": [a_component("v1", digest="sha256:fedcba98765432")]},
            [
                "calico-node, container felix: v1 sha256:fedcba987654 now, "
                "v1 sha256:0123456789ab in the report"
            ],
            id="a tag that was moved",
        ),
    ],
)
def test_a_rerun_is_on_the_cluster_of_its_report(
    before: dict[str, Any], now: dict[str, Any], lines: list[str]
) -> None:
    def there(
        uid: str = "u1",
        calico: str = "v3.31.2",
        revision: int = 2762,
        node: str = "w1",
        components: Any = (),
    ) -> tuple[Facts, Installed]:
        windows = a_windows_node(node, windows_build=(20348, revision))
        facts = some_facts(windows, calico_version=calico, kubernetes_version="v1.34.1")
        return facts, Installed(cluster_uid=uid, components=tuple(components))

    facts, installed = there(**before)
    stored: Any = SimpleNamespace(facts=facts, installed=to_plain(installed))
    assert list(differences(stored, *there(**now))) == lines
