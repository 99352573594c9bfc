# SPDX-License-Identifier: Apache-2.0
"""Two reports compared: worse, better, other builds, other facts, and speed outside its usual
variation."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import UsageProblem
from conformance.model.verdict import ClaimVerdict
from conformance.qualify.compare import as_json, as_markdown, as_text, compare
from conformance.qualify.stored import parse, read
from conformance.qualify.waivers import Waiver
from tests.unit.conformance.qualify.reports import BOTH, NEW, OLD, decided, report, undecided


def effect(seconds: float) -> dict[str, object]:
    spread = {"p50": seconds, "p95": seconds, "max": seconds}
    return {
        "windows closed": {
            "changes": 3,
            "first_correct": spread,
            "stable": spread,
            "exposure": None,
        }
    }


def test_a_claim_that_was_confirmed_and_is_violated_is_worse_and_fails() -> None:
    found = compare(
        report([decided("DEMO-7", {NEW: "CONFIRMED"})]),
        report([decided("DEMO-7", {NEW: "VIOLATED"})]),
    )
    assert [str(turned) for turned in found.of("worse")] == [
        "DEMO-7: CONFIRMED -> VIOLATED (DEMO-7 was VIOLATED)",
        "DEMO-7, Windows 20348: CONFIRMED -> VIOLATED (DEMO-7 is VIOLATED on 20348)",
    ]
    assert found.exit_code == 1


def test_reports_over_an_unverified_connection_say_so_and_differ_from_others_in_that() -> None:
    why = "plain HTTP to http://10.0.0.1: nothing is verified or encrypted"
    sure = report([decided("DEMO-7", {NEW: "CONFIRMED"})])
    loose = report([decided("DEMO-7", {NEW: "CONFIRMED"})], run={"unverified": why})
    found = compare(sure, loose)
    assert found.facts == (f"connection to the API server: verified -> {why}",)
    assert found.new.endswith(", field, over an unverified connection")
    assert found.old.endswith(", field")
    assert (found.exit_code, compare(loose, loose).facts) == (0, ())


def test_a_build_that_became_worse_is_seen_where_another_was_bad_before() -> None:
    old = report([decided("DEMO-7", {OLD: "VIOLATED", NEW: "CONFIRMED"})], builds=BOTH)
    new = report([decided("DEMO-7", {OLD: "VIOLATED", NEW: "VIOLATED"})], builds=BOTH)
    found = compare(old, new)
    assert [turned.where for turned in found.of("worse")] == ["Windows 20348"]
    assert found.exit_code == 1


def test_what_is_merely_not_decided_any_more_is_not_called_worse() -> None:
    found = compare(
        report([decided("DEMO-7", {NEW: "CONFIRMED"})]),
        report([undecided("DEMO-7", "INCONCLUSIVE")]),
    )
    assert [str(turned) for turned in found.of("undecided now")] == [
        "DEMO-7: CONFIRMED -> INCONCLUSIVE (DEMO-7 was INCONCLUSIVE)"
    ]  # fmt: skip
    assert found.exit_code == 6


def test_a_run_that_leaves_out_what_the_baseline_decided_does_not_pass_it() -> None:
    whole = report([decided("DEMO-7", {NEW: "CONFIRMED"})])
    assert compare(whole, report([])).exit_code == 6
    assert compare(report([]), whole).exit_code == 0


def test_a_part_that_became_worse_is_seen_where_another_was_bad_before() -> None:
    old = report(
        [decided("SVC-2", {NEW: "VIOLATED"}, "near"), decided("SVC-2", {NEW: "CONFIRMED"}, "far")]
    )
    new = report(
        [decided("SVC-2", {NEW: "VIOLATED"}, "near"), decided("SVC-2", {NEW: "VIOLATED"}, "far")]
    )
    assert [turned.where for turned in compare(old, new).of("worse")] == ["part far"]
    assert compare(old, new).exit_code == 1


def test_a_part_or_build_that_is_not_looked_at_any_more_is_not_decided_now() -> None:
    parts = [
        decided("SVC-2", {NEW: "CONFIRMED"}, "near"),
        decided("SVC-2", {NEW: "CONFIRMED"}, "far"),
    ]
    found = compare(report(parts), report(parts[:1]))
    assert [str(turned) for turned in found.of("undecided now")] == [
        "SVC-2, part far: CONFIRMED -> not selected (the newer run decided nothing about it)"
    ]
    assert found.exit_code == 6
    old = report([decided("DEMO-7", {OLD: "CONFIRMED", NEW: "CONFIRMED"})], builds=BOTH)
    new = report([decided("DEMO-7", {NEW: "CONFIRMED"})], builds=BOTH)
    assert [turned.where for turned in compare(old, new).of("undecided now")] == ["Windows 17763"]


def test_a_violation_that_is_gone_is_better() -> None:
    found = compare(
        report([decided("DEMO-7", {NEW: "VIOLATED"})]),
        report([decided("DEMO-7", {NEW: "CONFIRMED"})]),
    )
    assert {turned.claim for turned in found.of("better")} == {"DEMO-7"}
    assert found.exit_code == 0


def test_what_can_happen_and_did_not_is_as_acceptable_as_what_did() -> None:
    found = compare(
        report([decided("RST-1", {NEW: "CONFIRMED"})]),
        report([decided("RST-1", {NEW: "NOT_OBSERVED"})]),
    )
    assert {turned.turn for turned in found.turned} == {"same"}
    assert found.exit_code == 0


def test_a_limitation_that_is_gone_is_no_worse() -> None:
    found = compare(
        report([decided("XSVC-4", {NEW: "CONFIRMED"})]),
        report([decided("XSVC-4", {NEW: "LIFTED"})]),
    )
    assert found.exit_code == 0
    assert {turned.now for turned in found.turned} == {"LIFTED"}


def test_other_builds_parts_and_facts_are_told() -> None:
    old = report(
        [decided("SVC-2", {OLD: "CONFIRMED"}, "server near")],
        builds=((17763, 5329),),
        calico_version="v3.30.4",
    )
    new = report([decided("SVC-2", {NEW: "CONFIRMED"}, "server far")])
    found = compare(old, new)
    assert "SVC-2: part only before: server near" in found.parts
    assert "SVC-2: Windows build only now: 20348" in found.parts
    assert "calico version: v3.30.4 -> v3.31.2" in found.facts
    assert "windows nodes: 1 (17763.5329) -> 1 (20348.2762)" in found.facts


def test_another_update_of_the_same_windows_build_is_told() -> None:
    before = report([decided("DEMO-7", {NEW: "CONFIRMED"})], builds=((20348, 2227),))
    now = report([decided("DEMO-7", {NEW: "CONFIRMED"})], builds=((20348, 2762),))
    assert compare(before, now).facts == ("windows nodes: 1 (20348.2227) -> 1 (20348.2762)",)
    named = dict(now.plain)
    named["facts"] = json.loads(json.dumps(named["facts"]))
    named["facts"]["nodes"][-1]["update"] = {"value": "KB5044281", "source": "label x of the node"}
    found = compare(before, parse(named, "now")).facts
    assert found == ("windows nodes: 1 (20348.2227) -> 1 (20348.2762 KB5044281)",)


SWITCH = "hns\\State HnsAclUpdateChange"


def on_host(**told: str) -> Any:
    """A report whose Windows node has been looked into."""
    plain = json.loads(json.dumps(report([]).plain))
    plain["facts"]["nodes"][-1]["differences"] = {
        "value": {SWITCH: "0", **told},
        "source": "a look into the node",
    }
    return plain


def test_what_makes_two_hosts_of_one_build_differ_is_told() -> None:
    old, new = parse(on_host(Culture="en-US"), "old"), parse(on_host(Culture="de-DE"), "new")
    assert compare(old, new).facts == ("Windows 20348: Culture: en-US -> de-DE",)
    switched = on_host()
    switched["facts"]["nodes"][-1]["differences"]["value"][SWITCH] = "1"
    assert compare(parse(on_host(), "old"), parse(switched, "new")).facts == (
        f"Windows 20348: {SWITCH}: 0 -> 1",
    )


def test_another_calico_on_windows_nodes_alone_is_told() -> None:
    plain = json.loads(json.dumps(report([]).plain))
    there = {"value": "v3.24.0", "source": "calico-node.exe -v on node"}
    plain["facts"]["calico_on_nodes"] = {plain["facts"]["nodes"][-1]["name"]: there}
    assert compare(report([]), parse(plain, "new")).facts == (
        "Calico on Windows nodes: v3.31.2 -> v3.24.0",
    )


def test_what_judged_the_reports_is_told_where_it_differs() -> None:
    one = report([]).plain
    old = parse({**one, "suite": {"version": "1.0", "commit": "", "catalog": "a" * 64}}, "old")
    new = parse(
        {**one, "suite": {"version": "1.1", "commit": "c", "catalog": "b" * 64, "sets": "d" * 64}},
        "new",
    )
    assert compare(old, new).facts == (
        "the suite's version: 1.0 -> 1.1", "the suite's catalog: aaaaaaaaaaaa -> bbbbbbbbbbbb",
    )  # fmt: skip
    assert compare(old, report([])).facts == ()


def test_components_in_other_versions_are_told() -> None:
    def with_felix(version: str) -> dict[str, Any]:
        one = {"workload": "calico-node-windows", "container": "felix", "image": f"i:{version}", "version": version,
               "digest": "", "nodes": ["w"]}  # fmt: skip
        return dict(report([]).plain) | {"installed": {"cluster_uid": "u", "components": [one]}}

    found = compare(parse(with_felix("v3.30.4"), "old"), parse(with_felix("v3.31.2"), "new"))
    assert found.facts == ("calico-node-windows felix: v3.30.4 -> v3.31.2",)
    assert compare(report([]), parse(with_felix("v3.31.2"), "new")).facts == ()


def test_a_convergence_time_counts_as_moved_beyond_its_noise_only() -> None:
    quick, slow, near = (
        report([], effect=effect(1.0)),
        report([], effect=effect(2.0)),
        report([], effect=effect(1.3)),
    )
    assert compare(quick, slow).times == (
        "policy effect, windows closed, first correct: median 1.00 s -> 2.00 s",
        "policy effect, windows closed, stable: median 1.00 s -> 2.00 s",
    )
    assert compare(quick, near).times == ()


def test_a_convergence_time_within_the_spread_of_its_own_run_has_not_moved() -> None:
    spread = {"p50": 1.0, "p95": 3.5, "max": 4.0}
    wide = {
        "windows closed": {
            "changes": 9,
            "first_correct": spread,
            "stable": spread,
            "exposure": None,
        }
    }
    assert compare(report([], effect=wide), report([], effect=effect(3.0))).times == ()
    assert len(compare(report([], effect=wide), report([], effect=effect(4.0))).times) == 2


def test_a_recovery_that_takes_longer_is_told_with_its_claim() -> None:
    quick, slow = decided("RST-1", {NEW: "CONFIRMED"}), decided("RST-1", {NEW: "CONFIRMED"})
    quick["measured"], slow["measured"] = (
        {"seconds to a new connection": 2.0},
        {"seconds to a new connection": 9.0},
    )
    assert compare(report([quick]), report([slow])).times == ("recovery, RST-1: 2.00 s -> 9.00 s",)


def recovery(claim: str, seconds: float) -> dict[str, Any]:
    """What a test said of a claim that measures how long a connection was gone."""
    return decided(claim, {NEW: "CONFIRMED"}) | {
        "measured": {"seconds to a new connection": seconds}
    }


def test_recoveries_are_compared_only_where_both_reports_have_them() -> None:
    found = compare(report([recovery("RST-1", 2.0)]), report([recovery("RST-2", 9.0)]))
    assert found.times == ()


def test_a_recovery_moves_by_more_than_a_busy_machine_accounts_for() -> None:
    old, longer = report([recovery("RST-1", 0.1)]), report([recovery("RST-1", 0.9)])
    assert compare(old, longer).times == ("recovery, RST-1: 0.10 s -> 0.90 s",)
    assert compare(old, report([recovery("RST-1", 0.3)])).times == ()


def test_reports_that_agree_say_so_in_every_form() -> None:
    found = compare(
        report([decided("DEMO-7", {NEW: "CONFIRMED"})]),
        report([decided("DEMO-7", {NEW: "CONFIRMED"})]),
    )
    assert as_text(found).endswith("They agree.\n")
    assert as_markdown(found).endswith("They agree.\n")
    assert json.loads(as_json(found))["turned"] == []


def test_claims_that_turned_alike_and_say_the_same_share_a_line_and_are_counted_each() -> None:
    old = report([decided(claim, {NEW: "CONFIRMED"}) for claim in ("CONN-1", "CONN-2", "CONN-3")])
    found = compare(old, report([decided("CONN-3", {NEW: "INCONCLUSIVE"})]))
    told = as_text(found).splitlines()
    assert told[3] == "Decided before and not now (3)"
    assert [line.partition(" (")[0] for line in told[4:6]] == [
        "  CONN-1, CONN-2: CONFIRMED -> not selected", "  CONN-3: CONFIRMED -> INCONCLUSIVE",
    ]  # fmt: skip


def test_markdown_escapes_what_a_cluster_named() -> None:
    old, new = report([]), report([], platform="<b>x</b>|y")
    assert "&lt;b>x&lt;/b>\\|y" in as_markdown(compare(old, new))
    link = "[x](javascript:alert(1)) ![](http://a.example/p.png) \\| \\[y](z)"
    told = as_markdown(compare(old, report([], platform=link)))
    assert r"\[x](javascript:alert(1)) !\[](http://a.example/p.png) \\\| \\\[y](z)" in told


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "is not JSON"),
        ('{"schema_version": "9"}', "is not a conformance.json of schema 1, 2 or 3"),
        ("[]", "is not a conformance.json"),
        ('{"schema_version": "2"}', "is damaged: it lacks 'claims'"),
        ('{"schema_version": "2", "tests": [null]}', "is damaged: a part has another shape"),
        ('{"schema_version": "2", "claims": {"a": 1}}', "is damaged: a part has another"),
        ('{"schema_version": "2", "run": ["a"]}', "is damaged: a part has another shape"),
        ("[" * 200_000, "is not JSON"),
    ],
    ids=["cut", "version", "list", "without claims", "tests", "claims", "run", "deep"],
)
def test_a_file_that_is_no_report_is_refused_in_one_line(
    tmp_path: Path, content: str, expected: str
) -> None:
    path = tmp_path / "conformance.json"
    path.write_text(content)
    with pytest.raises(UsageProblem, match=expected):
        read(path)


def test_a_report_that_a_windows_program_saved_is_read(tmp_path: Path) -> None:
    path = tmp_path / "conformance.json"
    path.write_text(json.dumps(report([]).plain), encoding="utf-8-sig")
    assert "BGP-1" in read(path).claims


def test_a_report_without_a_cluster_can_be_compared() -> None:
    plain = dict(report([]).plain) | {"facts": None}
    assert compare(parse(plain, "x"), parse(plain, "y")).facts == ()


def waiver(**narrowed: str) -> Waiver:
    return Waiver(
        claim="DEMO-7", verdicts=(ClaimVerdict.VIOLATED,), reason="known", link="https://x.example/1", owner="jane",
        expires=datetime.date(2099, 12, 31), **narrowed,
    )  # fmt: skip


def test_a_waiver_covers_what_became_worse_and_is_named() -> None:
    old = report([decided("DEMO-7", {NEW: "CONFIRMED"})])
    new = report([decided("DEMO-7", {NEW: "VIOLATED"})])
    found = compare(old, new, [waiver()])
    assert (found.exit_code, found.cause) == (0, "")
    assert [turned.where for turned in found.waived] == ["", "Windows 20348"]
    assert (
        "DEMO-7: CONFIRMED -> VIOLATED (DEMO-7 VIOLATED, waived by jane until 2099-12-31"
        in as_text(found)
    )


def test_a_waiver_of_one_build_covers_no_other() -> None:
    old = report([decided("DEMO-7", {OLD: "CONFIRMED", NEW: "CONFIRMED"})], builds=BOTH)
    new = report([decided("DEMO-7", {OLD: "VIOLATED", NEW: "VIOLATED"})], builds=BOTH)
    found = compare(old, new, [waiver(build=OLD)])
    assert [turned.where for turned in found.of("worse")] == ["", "Windows 20348"]
    assert (found.exit_code, found.cause) == (1, "DEMO-7 became worse")


def test_a_waiver_covers_no_claim_that_is_not_decided_any_more() -> None:
    found = compare(
        report([decided("DEMO-7", {NEW: "CONFIRMED"})]),
        report([undecided("DEMO-7", "INCONCLUSIVE")]),
        [waiver()],
    )
    assert (found.exit_code, found.cause) == (6, "no longer decided: DEMO-7")
