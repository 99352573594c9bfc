# SPDX-License-Identifier: Apache-2.0
"""Every output counts claims by the same words, and names a cause of several claims only once."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from conformance.model.explanation import unnamed
from conformance.report import summed_up, terminal
from conformance.report.page import render
from conformance.verdicts.claims import BY_HAND, NO_TEST
from tests.golden.reports.texts import stored
from tests.unit.conformance.qualify.reports import a_gate

FELIX = "Felix does not run on windows-2019"


def claim(
    ident: str, verdict: str | None, *, kind: str = "capability", reason: str = "", tests: int = 1
) -> Any:
    results = [{"test": ident, "verdict": verdict}] * tests
    return {"id": ident, "verdict": verdict, "kind": kind, "reason": reason, "results": results}


def test_words_tell_what_verdicts_do_not() -> None:
    several = [
        claim("A", "CONFIRMED"),
        claim("B", "CONFIRMED", kind="limitation"),
        claim("C", "NOT_RUN", reason=NO_TEST, tests=0),
        claim("D", "NOT_RUN", reason=BY_HAND, tests=0),
        claim("E", "NOT_RUN", reason="it needs two nodes"),
        claim("F", None),
    ]
    assert summed_up.counts(several) == {
        "NOT_RUN": 1, "no test": 1, "by hand": 1, "CONFIRMED": 1, "still there": 1, "not selected": 1
    }  # fmt: skip


def test_a_cause_of_several_claims_is_said_once_with_the_worst_first() -> None:
    plain = {
        "claims": [
            claim("DEMO-5", "INCONCLUSIVE"),
            claim("PLAT-14", "VIOLATED"),
            claim("CONN-3", "VIOLATED"),
        ],
        "tests": [
            {"test": "DEMO-5", "cause": FELIX},
            {"test": "PLAT-14", "cause": FELIX},
            {"test": "CONN-3", "cause": "other"},
        ],
    }
    assert {
        cause: [one["id"] for one in found] for cause, found in summed_up.causes(plain).items()
    } == {FELIX: ["PLAT-14", "DEMO-5"]}


def test_pods_without_a_node_are_undecided_for_the_loss_of_theirs_and_of_no_other() -> None:
    lost = "node windows-2019 was lost during the run"
    why = (
        "0 of 2 pods ready after 22 s: pod a (no node yet, node {} is tainted "
        "node.kubernetes.io/unreachable=:NoSchedule)"
    )
    plain = {
        "claims": [
            claim("CONN-1", "INCONCLUSIVE", reason=lost),
            claim("DEMO-9", "INCONCLUSIVE", reason=why.format("windows-2019")),
            claim("DEMO-8", "INCONCLUSIVE", reason=why.format("windows-2022")),
        ],
        "tests": [{"test": "CONN-1", "cause": lost}],
    }
    found = {cause: [one["id"] for one in claims] for cause, claims in summed_up.all_causes(plain)}
    assert found == {lost: ["CONN-1", "DEMO-9"], why.format("windows-2022"): ["DEMO-8"]}


def test_what_policy_closes_and_is_open_comes_first_in_the_summary() -> None:
    plain: dict[str, Any] = copy.deepcopy(dict(stored("leak").plain))
    plain["tests"] += [{"test": ident, "cause": FELIX} for ident in ("CONN-1", "CONN-3")]
    plain["claims"] = [
        told_of("CONN-1", "VIOLATED", reason="CONN-1: shut"), told_of("CONN-3", "VIOLATED", reason="CONN-3: shut"),
        told_of("CONN-4", "CONFIRMED", reason="so", danger="it is open by design"),
        told_of("POL-1", "VIOLATED", reason="POL-1: open", opens=True),
    ]  # fmt: skip
    lines = [line for line, _ in terminal.summary(plain, Path("x"))]
    assert [line.split()[:2] for line in lines[:5]] == [
        ["VIOLATED", "POL-1"], FELIX.split()[:2], ["VIOLATED", "CONN-1"], ["VIOLATED", "CONN-3"], ["danger", "CONN-4"],
    ]  # fmt: skip
    assert len([line for line in lines if line.startswith("VIOLATED     POL-1")]) == 1


def test_of_one_cause_what_policy_closes_and_is_open_comes_first() -> None:
    shut, open_ = claim("CONN-3", "VIOLATED"), claim("POL-1", "VIOLATED") | {"opens": True}
    tests = [{"test": "CONN-3", "cause": FELIX}, {"test": "POL-1", "cause": FELIX}]
    assert summed_up.causes({"claims": [shut, open_], "tests": tests}) == {FELIX: [open_, shut]}


def report_of_one_cause() -> dict[str, Any]:
    """A kept report, whose violated claims all fail of one thing."""
    plain: dict[str, Any] = copy.deepcopy(dict(stored("leak").plain))
    for test in plain["tests"]:
        test["cause"] = FELIX
    return plain


def test_every_output_has_it() -> None:
    plain = report_of_one_cause()
    lines = [line for line, _ in terminal.summary(plain, Path("x"))]
    place = next(number for number, line in enumerate(lines) if line.startswith(f"{FELIX}: "))
    assert lines[place].endswith("claims fail for this cause")
    assert lines[place + 1].startswith("  VIOLATED")
    assert f"<b>{FELIX}</b>" in render(plain)


def test_claims_that_stay_undecided_for_a_cause_have_their_statements_and_their_remedy_once() -> (
    None
):
    plain = report_of_one_cause()
    violated = [claim for claim in plain["claims"] if claim["verdict"] == "VIOLATED"]
    for number, claim in enumerate(violated):
        claim |= {
            "verdict": "INCONCLUSIVE",
            "reason": f"pod {number} is denied",
            "remedy": "exempt",
        }
        for result in claim["results"]:
            result["verdict"] = "INCONCLUSIVE"
    lines = [line for line, _ in terminal.summary(plain, Path("x"))]
    assert f"{FELIX}: {len(violated)} claims are undecided for this cause" in lines
    assert not [line for line in lines if "is denied" in line]
    assert [line.strip() for line in lines].count("exempt") == 1
    for claim in violated:
        assert [line for line in lines if claim["id"] in line and claim["statement"] in line]


def test_a_limitation_that_is_still_there_is_no_success() -> None:
    plain: dict[str, Any] = copy.deepcopy(dict(stored("healthy").plain))
    one = next(claim for claim in plain["claims"] if claim["verdict"] == "CONFIRMED")
    one["kind"] = "limitation"
    there = [line for line, tone in terminal.summary(plain, Path("x")) if tone == "known"]
    assert all("still there" in line for line in there if line.startswith("CONFIRMED"))
    assert there
    assert "v-still-there" in render(plain)


def test_a_gate_has_a_line_for_each_claim_and_for_claims_that_say_the_same() -> None:
    assert summed_up.grouped(
        [
            "CONN-3 (linux->windows (UDP)) VIOLATED: CONN-3: packets vanish",
            "CONN-3 (windows->linux) VIOLATED: CONN-3: others vanish",
            "the run cut short: 2 planned tests were not run",
            "DEMO-7 VIOLATED: DEMO-7: it is open",
            "CONN-4 (a (b)) NOT_RUN: the run ended before it",
            "DEMO-5 NOT_RUN: the run ended before it",
            "DEMO-6 not selected: ",
            "DEMO-1 VIOLATED: n/a -> 10.0.0.1",
            "DEMO-2 VIOLATED: n/b -> 10.0.0.2",
            "DEMO-2 INCONCLUSIVE: the probe broke",
            "what no obstacle says",
        ],
        {("DEMO-1", "VIOLATED"): "w1 leaks", ("DEMO-2", "VIOLATED"): "w1 leaks"},
    ) == [
        "CONN-3 (2 parts) VIOLATED: packets vanish",
        "the run cut short: 2 planned tests were not run",
        "DEMO-7 VIOLATED: it is open",
        "CONN-4 (a (b)), DEMO-5 NOT_RUN: the run ended before it",
        "DEMO-6 not selected",
        "DEMO-1, DEMO-2 VIOLATED: w1 leaks",
        "DEMO-2 INCONCLUSIVE: the probe broke",
        "what no obstacle says",
    ]


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    plain: dict[str, Any] = copy.deepcopy(dict(stored("healthy").plain))
    plain["run"]["notes"] = ["\x1b]0;title\x07 \u202eturned\r\nnext \u5357"]
    told = [line for line, _ in terminal.summary(plain, Path("x")) if line.startswith("note: ")]
    assert told == ["note: \\x1b]0;title\\x07 \\u202eturned next \u5357"]


def test_a_claim_has_a_line_of_its_own_however_much_a_cluster_says() -> None:
    plain: dict[str, Any] = copy.deepcopy(dict(stored("leak").plain))
    one = next(claim for claim in plain["claims"] if claim["verdict"] == "VIOLATED")
    one |= {"reason": f"{one['id']}: {'very ' * 1000}long", "decided_parts": [f"part {n}" for n in range(60)],
            "missing_parts": ["linux->windows"]}  # fmt: skip
    lines = [line for line, _ in terminal.summary(plain, Path("x"))]
    (told,) = [line for line in lines if "very very" in line]
    assert len(told) < 500
    assert told.endswith(" ...")
    assert f"{'':22} decided: 60 parts; without verdict: linux->windows" in lines


def test_claims_of_which_nothing_was_run_for_one_reason_are_a_line() -> None:
    plain: dict[str, Any] = copy.deepcopy(dict(stored("cut-short").plain))
    lines = [line for line, _ in terminal.summary(plain, Path("x")) if line.startswith("NOT_RUN")]
    ended = "the run ended before it; run it again"
    assert lines == [
        f"NOT_RUN      CONN-6, DEMO-7, DEMO-8, DEMO-9, IPAM-1, IPAM-3, IPAM-6, IPAM-8: {ended}"
    ]
    other = next(claim for claim in plain["claims"] if claim["id"] == "IPAM-1")
    other["decided_parts"] = ["linux"]
    lines = [line for line, _ in terminal.summary(plain, Path("x")) if line.startswith("NOT_RUN")]
    assert [line[:22] for line in lines] == ["NOT_RUN      CONN-6, D", "NOT_RUN      IPAM-1   "]


def told_of(ident: str, verdict: str, **more: Any) -> Any:
    """A claim as reports have it."""
    return claim(ident, verdict) | {
        "statement": f"{ident} holds.", "remedy": "", "decided_parts": [], "missing_parts": [], "builds": {},
    } | {"results": [{"test": ident, "verdict": verdict, "measured": {}}]} | more  # fmt: skip


def test_the_exit_code_names_a_known_cause_and_counts_those_without_a_known_one() -> None:
    plain = {
        "run": {"exit_code": 1},
        "claims": [
            told_of("CONN-3", "VIOLATED", reason="CONN-3: refused"),
            told_of("DEMO-7", "VIOLATED", reason="DEMO-7: open"),
        ],
        "tests": [{"test": "DEMO-7", "cause": "windows-2022 leaks"}],
    }
    assert terminal.meaning(plain) == "a claim is VIOLATED: windows-2022 leaks; 1 more"


def test_a_lost_node_is_the_known_cause_of_a_single_claim() -> None:
    lost = "node windows-2019 was lost during the run"
    told = told_of("DEMO-5", "INCONCLUSIVE", reason=f"DEMO-5  {lost}: Ready Unknown")
    plain = {"run": {"exit_code": 6}, "claims": [told], "tests": []}
    ((cause, claims),) = summed_up.all_causes(plain)
    assert cause == lost
    assert summed_up.is_known(plain, cause, claims)
    assert terminal.meaning(plain) == f"1 claim undecided: {lost}"


def test_the_summary_has_every_line_in_its_tone_and_order() -> None:
    issue = {"text": "may be known upstream"}
    plain: dict[str, Any] = {
        "run": {
            "evidence": "lab", "exit_code": 1, "started": "2026-11-20T10:00:00Z", "labels": {"release": "rc1"},
            "notes": ["look"],
            "continues": {"id": "r0", "started": "then", "again": {
                "a": ["NOT_RUN", "CONFIRMED"], "b": ["UNMET"] * 2, "c": ["UNMET"] * 2,
            }},
        },
        "facts": {"nodes": [{"os": "windows", "windows_build": [20348, 2762]}]},
        "claims": [
            told_of("CONN-1", "CONFIRMED", reason="as it was", danger="it is open by design", remedy="none is needed"),
            told_of("CONN-3", "VIOLATED", reason="CONN-3: refused", remedy="look there", known_issues=[issue]),
            told_of("DEMO-7", "VIOLATED", reason="DEMO-7: open", opens=True, half="only read",
                    inapplicable_parts={"by BGP": "none here"}, builds={"17763": "VIOLATED", "20348": "CONFIRMED"}),
        ],
        "matrix": {"pod-ip": {"linux->windows": "VIOLATED"}},
        "waived": {"CONN-3": "by jane"},
        "gates": [
            a_gate(headline="core: yes", waived=["CONN-3 VIOLATED"]),
            a_gate(name="vxlan", headline="vxlan: yes"),
            a_gate("incomplete", name="policy", headline="policy: no", obstacles=["POL-1 not selected: x"]),
        ],
    }  # fmt: skip
    margin = " " * 22
    assert [(line, tone) for line, tone in terminal.summary(plain, Path("there")) if line] == [
        ("VIOLATED     DEMO-7    VIOLATED on 17763, CONFIRMED on 20348: open", "bad"),
        (f"{margin} part by BGP is not about this cluster: none here", "bad"),
        (f"{margin} only read", "bad"),
        ("danger       CONN-1    it is open by design", "warn"),
        ("VIOLATED     CONN-3    refused", "bad"),
        (f"{margin} may be known upstream", "bad"),
        (f"{margin} look there", "bad"),
        ("CONFIRMED    CONN-1    CONN-1 holds.", "good"),
        ("client -> server  L->L  L->W      W->L  W->W", "plain"),
        ("pod-ip            -     VIOLATED  -     -", "plain"),
        ("waived: CONN-3: by jane", "warn"),
        ("gate: core: yes", "warn"),
        ("gate: vxlan: yes", "good"),
        ("gate: policy: no", "bad"),
        ("      POL-1 not selected: x", "bad"),
        ("gate: also VIOLATED, but in no required set: DEMO-7", "bad"),
        ("label: release=rc1", "plain"),
        ("claims: 2 VIOLATED, 1 CONFIRMED", "plain"),
        (
            "continues: run r0 of then; 3 tests run again: 1 NOT_RUN before, CONFIRMED now; "
            "2 UNMET as before",
            "plain",
        ),
        ("note: look", "warn"),
        (
            "evidence: lab (Windows 20348.2762, emulated); it shows that the suite works and qualifies no release",
            "plain",
        ),
        ("report: there  (exit code 1: a claim is VIOLATED)", "bad"),
    ]
    assert summed_up.beside_gates(plain | {"gates": []}) == []
    assert summed_up.beside_gates(plain | {"waived": {}}) == ["DEMO-7"], (
        "a gate that waives it has told of it"
    )
    gate = a_gate(obstacles=["DEMO-7 VIOLATED: open"])
    assert summed_up.beside_gates(plain | {"gates": [gate]}) == [], "in the way of one, and waived"
    plain["run"] |= {"exit_code": 6}
    assert terminal.meaning(plain).startswith("not everything could be decided")
    plain["claims"][1:] = [
        told_of(ident, "INCONCLUSIVE", reason=f"{ident}: policy wide denies ingress\nmore")
        for ident in ("DEMO-6", "DEMO-7")
    ]
    assert terminal.meaning(plain) == "2 claims undecided: policy wide denies ingress"
    plain["tests"] = [
        {"test": ident, "cause": "a policy of others"} for ident in ("DEMO-6", "DEMO-7")
    ]
    assert terminal.meaning(plain) == "2 claims undecided: a policy of others"
    plain["run"] |= {"exit_code": 0}
    assert terminal.meaning(plain) == "nothing violated except what is waived: CONN-3"


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"a": "x"}, ["part a is not about this cluster: x"]),
        ({"a": "x", "b": "y"}, ["2 parts are not about this cluster"]),
    ],
)
def test_of_several_parts_that_are_not_about_the_cluster_their_number_is_told(
    parts: dict[str, str], told: list[str]
) -> None:
    lines = terminal.summary(
        {
            "run": {"exit_code": 0},
            "claims": [told_of("CONN-6", "CONFIRMED", inapplicable_parts=parts)],
        },
        Path("r"),
    )
    assert [line.strip() for line, _ in lines if "not about this cluster" in line] == told


def test_words_are_counted_in_the_order_of_their_weight() -> None:
    several = [claim("A", "CONFIRMED"), claim("B", "VIOLATED"), claim("C", "INCONCLUSIVE")]
    assert list(summed_up.counts(several)) == ["VIOLATED", "INCONCLUSIVE", "CONFIRMED"]


def test_gates_of_two_sets_and_those_that_waive_otherwise_stand_apart() -> None:
    gate = a_gate()
    several = [gate, gate | {"waived": ["DEMO-7, by jane"]}, gate | {"name": "policy"}, gate]
    three = summed_up.gates({"claims": [], "gates": several})
    assert [len(one["headlines"]) for one in three] == [1, 1, 1, 1]
    assert [
        len(one["headlines"]) for one in summed_up.gates({"claims": [], "gates": [gate, gate]})
    ] == [2]


def test_a_gate_says_what_claims_fail_of_where_that_is_known_of_what_is_in_its_way() -> None:
    gate = a_gate("not qualified", name="policy", headline="policy")
    gate["obstacles"] = [
        "DEMO-5 VIOLATED: ns/a -> 10.0.0.1",
        "DEMO-7 (x) VIOLATED: ns/b -> 10.0.0.2",
        "A INCONCLUSIVE: b",
    ]
    plain = {
        "claims": [
            claim("DEMO-5", "VIOLATED"),
            claim("DEMO-7", "VIOLATED"),
            claim("A", "VIOLATED"),
        ],
        "tests": [
            {"test": "DEMO-5", "cause": FELIX},
            {"test": "DEMO-7", "cause": FELIX},
            {"test": "A", "cause": FELIX},
        ],
        "gates": [gate],
    }
    assert summed_up.gates(plain)[0]["obstacles"] == [
        f"DEMO-5, DEMO-7 (x) VIOLATED: {FELIX}",
        "A INCONCLUSIVE: b",
    ]


def test_what_a_run_asked_and_how_long_policies_took_is_told_where_it_is_asked_for() -> None:
    plain = stored("whole").plain
    usual = [line for line, _ in terminal.summary(plain, Path("x"))]
    whole = [line for line, _ in terminal.summary(plain, Path("x"), figures=True)]
    assert [line for line in whole if line.startswith("convergence ")]
    assert [line for line in usual if line not in whole] == []
    assert len(whole) > len(usual)


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("DEMO-6: w1 does not enforce the policy", "w1 does not enforce the policy"),
        ("ControlBroken: DEMO-6: w1 does not enforce the policy", "w1 does not enforce the policy"),
        ("DEMO-6  ns/a -> ns/b", "ns/a -> ns/b"),
        ("DEMO-60: of another", "DEMO-60: of another"),
        ("DEMO-5, DEMO-6: of both", "DEMO-5, DEMO-6: of both"),
        ("ProbeBroken: no agent; see DEMO-6: here", "ProbeBroken: no agent; see DEMO-6: here"),
    ],
)
def test_beside_a_claim_s_id_a_line_begins_with_what_is_wrong(line: str, left: str) -> None:
    assert unnamed(line, "DEMO-6") == left


@pytest.mark.parametrize(
    ("decided", "told"),
    [
        ([], "decided: none; without verdict: b"),
        (["a"], "decided: a; without verdict: b"),
        (list("acdefghi"), "decided: a, c, d, e, f, g, h, i; without verdict: b"),
        (list("acdefghij"), "decided: 9 parts; without verdict: b"),
    ],
)
def test_up_to_eight_parts_are_named_and_more_are_counted(decided: list[str], told: str) -> None:
    plain: dict[str, Any] = copy.deepcopy(dict(stored("leak").plain))
    one = next(claim for claim in plain["claims"] if claim["verdict"] == "VIOLATED")
    one |= {"decided_parts": decided, "missing_parts": ["b"]}
    assert f"{'':22} {told}" in [line for line, _ in terminal.summary(plain, Path("x"))]


@pytest.mark.parametrize(
    ("inapplicable", "told"),
    [
        ({}, []),
        ({"a": "no IPv6"}, ["part a is not about this cluster: no IPv6"]),
        ({"a": "no IPv6", "b": "no BGP"}, ["2 parts are not about this cluster"]),
    ],
)
def test_a_part_that_is_not_about_the_cluster_says_why_and_several_are_counted(
    inapplicable: dict[str, str], told: list[str]
) -> None:
    plain: dict[str, Any] = copy.deepcopy(dict(stored("leak").plain))
    one = next(claim for claim in plain["claims"] if claim["verdict"] == "VIOLATED")
    one |= {"inapplicable_parts": inapplicable}
    lines = [line.strip() for line, _ in terminal.summary(plain, Path("x"))]
    assert [line for line in lines if "not about this cluster" in line and "part" in line] == told
