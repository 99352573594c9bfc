# SPDX-License-Identifier: Apache-2.0
"""What the page shows of a failure: causes, files, the command, the verdicts between nodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance.report.commands import run_again
from conformance.report.page import bundles, render, write
from conformance.report.page.parts import parts
from tests.unit.conformance.qualify.reports import NEW, OLD, decided
from tests.unit.conformance.report.pages import HOSTILE, LEAK, plain, section


def test_what_a_failure_left_is_on_the_page_and_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "attachments" / "one"
    folder.mkdir(parents=True)
    (folder / "events.txt").write_text(HOSTILE)
    (folder / "long.txt").write_text("x" * 30_000)
    left = ["attachments/one/events.txt", "attachments/one/long.txt"]
    tests = [
        {"test": "t::one", "verdict": "VIOLATED", "attachments": left},
        {"test": "t::two", "verdict": "CONFIRMED", "attachments": left},
    ]
    found = bundles(plain(LEAK) | {"tests": tests}, tmp_path)
    assert list(found) == ["t::one"]
    assert found["t::one"][1][1].endswith("... 10000 more characters in attachments/one/long.txt")
    page = render(plain(LEAK), failures=found)
    assert "Evidence of failures" in page
    assert "<img" not in page


def test_of_many_files_each_shows_less_so_that_the_page_does_not_grow_with_them(
    tmp_path: Path,
) -> None:
    names = [f"{number}.txt" for number in range(600)]
    for name in names:
        (tmp_path / name).write_text("x" * 30_000)
    (found,) = bundles(
        {"tests": [{"test": "t", "verdict": "VIOLATED", "attachments": names}]}, tmp_path
    ).values()
    assert [name for name, _ in found] == names[:400]
    assert 200_000 <= sum(len(text) for _, text in found) < 230_000


def test_a_long_difference_does_not_push_the_answer_away_and_says_how_much_it_is() -> None:
    lines = [
        "old  a",
        "new  b",
        "",
        "Worse (1)",
        "  DEMO-7: CONFIRMED -> VIOLATED",
        "",
        "Decided now (40)",
    ]
    short = render(plain(LEAK), difference=lines)
    assert "<details open><summary>Worse (1), Decided now (40)</summary>" in short
    assert "<details><summary>Worse (1), Decided now (40)</summary>" in render(
        plain(LEAK), difference=lines + ["  x"] * 40
    )


def test_causes_stand_first_and_what_should_hold_apart_from_what_was_observed() -> None:
    page = render(plain(decided("CONN-1", {NEW: "INCONCLUSIVE"}), LEAK))
    assert page.index('id="causes"') < page.index('id="paths"') < page.index('id="areas"')
    causes = section(page, "causes")
    assert re.findall(r'href="#([^"]*)"', causes) == ["DEMO-7", "CONN-1"], "the worst first"
    assert 'data-copy="pytest --claim DEMO-7">command' in causes
    details = section(page, "details")
    assert re.findall(r"<th>([^<]*)</th>", details)[:4] == [
        "Claim", "Should hold", "Observed", "Where"
    ]  # fmt: skip
    statement = next(claim["statement"] for claim in plain()["claims"] if claim["id"] == "DEMO-7")
    assert f"<td>{statement}</td><td><b>DEMO-7 was VIOLATED</b></td>" in details
    assert f"<td>Windows {OLD}</td>" in details
    assert "<code><span>pytest</span> <span>--claim DEMO-7</span></code>" in details
    assert page.index('<details class="claim" id="DEMO-7"') < page.index(
        '<details class="claim" id="CONN-1"'
    )


def test_a_failure_shows_its_explanation_and_nothing_of_the_machine() -> None:
    whole = plain(LEAK)
    told = {
        "lines": {"because": "the policy"},
        "again": "pytest --claim DEMO-7 --kubeconfig=/home/me/k -n auto",
    }
    failed = [result["test"] for claim in whole["claims"] for result in claim["results"]]
    whole["tests"] = [{"test": name, "verdict": "VIOLATED", "explanation": told} for name in failed]
    whole["run"]["cluster"]["label"] = (
        "lab default, https://127.0.0.1:4, kubeconfig /tmp/x, context hybridlab"
    )
    page = render(whole)
    assert '<dt>because</dt><dd class="text">the policy</dd>' in page
    assert 'data-copy="pytest --claim DEMO-7 --kubeconfig=k -n auto"' in page
    assert "<dt>Cluster</dt><dd>lab default, context hybridlab</dd>" in page
    assert "/home/me" not in page


@pytest.mark.parametrize(
    ("command", "again", "expected"),
    [
        ("pytest -n auto", ["pytest --claim A --claim B -n 2 --nodes=w1"], "pytest --claim DEMO-7 --nodes=w1"),
        ("pytest --kubeconfig=/srv/me/k --nodes=w1", ["", ""], "pytest --claim DEMO-7 --kubeconfig=k --nodes=w1"),
        (
            "pytest --cluster kubeconfig --context 'a b' -k demo --allow-disruptive", [],
            "pytest --claim DEMO-7 --cluster kubeconfig --context 'a b'",
        ),
        ("pytest --allow-disruptive -n 2", ["", "alone"], "pytest --claim DEMO-7 --allow-disruptive"),
        ("pytest --lab-profile=bgp", ["x --nodes=w1", "x"], "pytest --claim DEMO-7 --lab-profile=bgp"),
        ("pytest '--kubeconfig=/home/me/my k.yaml' -x", [], "pytest --claim DEMO-7 '--kubeconfig=my k.yaml'"),
        ("calico-conformance run --kubeconfig=k", [], "calico-conformance run --claim DEMO-7 --kubeconfig=k"),
    ],
)  # fmt: skip
def test_the_command_beside_a_violated_claim_asks_the_same_cluster_and_its_nodes(
    command: str, again: list[str], expected: str
) -> None:
    """Otherwise the command would start a lab, which does not fail."""
    results = [{"test": f"t{number}", "verdict": "VIOLATED"} for number in range(len(again))]
    claim = {
        "id": "DEMO-7",
        "verdict": "VIOLATED",
        "results": [*results, {"test": "good", "verdict": "CONFIRMED"}],
    }
    tests = {
        f"t{number}": {
            "explanation": {"again": text} if text else None,
            "exclusive": text * (text == "alone"),
        }
        for number, text in enumerate(again)
    }
    assert run_again([claim], tests, command) == expected


def test_verdicts_between_nodes_are_a_grid_for_all_claims_and_for_each() -> None:
    whole = plain(decided("DEMO-7", {OLD: "VIOLATED"}), decided("DEMO-6", {NEW: "CONFIRMED"}))
    first, second = (
        next(claim for claim in whole["claims"] if claim["id"] == ident)["results"][0]
        for ident in ("DEMO-7", "DEMO-6")
    )
    one = first["decisions"][0]
    first["decisions"] = [
        one | {"source": source, "target": to, "verdict": verdict}
        for source, to, verdict in (
            ("l-1", "w-1", "VIOLATED"), ("l-1", "w-2", "CONFIRMED"), ("w-1", "", "INCONCLUSIVE"),
        )
    ]  # fmt: skip
    second["decisions"] = [
        one | {"source": "l-1", "target": "w-1", "verdict": "CONFIRMED"},
        one | {"source": "", "target": "w-1", "verdict": "CONFIRMED"},
    ]
    page = render(whole)
    cells = r'<td class="c-(\w+)"(?: title="([^"]*)")?>(.)</td>|<td></td>'
    assert re.findall(cells, section(page, "paths")) == [
        ("VIOLATED", "l-1 to w-1: 1 VIOLATED, 1 CONFIRMED", "\u2715"), ("CONFIRMED", "", "\u2713"),
        ("", "", ""), ("", "", ""), ("", "", ""),
        ("INCONCLUSIVE", "w-1 to beyond: 1 INCONCLUSIVE", "?"),
    ]  # fmt: skip
    of_claim = page.partition('<details class="claim" id="DEMO-7"')[2].partition("<dl>")[0]
    assert re.findall(r"<th>(?:<span>)?([^<]+)", of_claim) == [
        "client, server", "w-1", "w-2", "beyond",
    ]  # fmt: skip
    assert "l-1 to w-1: 1 VIOLATED" in of_claim
    other = page.partition('<details class="claim" id="DEMO-6"')[2].partition("</details>")[0]
    assert '<table class="grid' not in other, "a single pair needs no grid"


def test_many_parts_stand_behind_a_fold_the_failed_ones_before_it() -> None:
    good = [
        decided("POL-1", {NEW: "CONFIRMED"}) | {"part": f"part {number}"} for number in range(20)
    ]
    bad = decided("POL-1", {NEW: "VIOLATED"}) | {"part": "the bad one"}
    page = render(plain(*good, bad))
    claim = page[page.index('id="POL-1"') : page.index("</details>", page.index('class="more"'))]
    assert re.findall(r'class="part"( open)?><summary><span class="v v-(\w+)">', claim)[:2] == [
        (" open", "VIOLATED"), ("", "CONFIRMED")
    ]  # fmt: skip
    assert "<summary>17 more: 17 CONFIRMED</summary>" in claim, (
        "the open one takes the room of others"
    )
    assert "<summary>12 more: 12 CONFIRMED</summary>" in render(plain(*good))


def test_files_of_a_failure_are_links_where_the_page_lies_beside_them(tmp_path: Path) -> None:
    whole = plain(LEAK)
    test = next(result["test"] for claim in whole["claims"] for result in claim["results"])
    whole["tests"] = [
        {"test": test, "verdict": "VIOLATED", "attachments": ["attachments/one/packets.pcap"]}
    ]
    (tmp_path / "elsewhere").mkdir()
    for place, link in ((tmp_path, True), (tmp_path / "elsewhere", False)):
        write(whole, place / "report.html", folder=tmp_path)
        page = (place / "report.html").read_text()
        assert ('<a href="attachments/one/packets.pcap">packets.pcap</a>' in page) is link
        assert "packets.pcap" in page


def test_what_is_open_that_was_to_be_closed_comes_before_what_is_closed() -> None:
    whole = plain(decided("CONN-1", {NEW: "VIOLATED"}), LEAK)
    for claim in whole["claims"]:
        claim["opens"] = claim["id"] == "DEMO-7"
    table = section(render(whole), "details")
    assert re.findall(r'<th scope="row"><a href="#([^"]*)"', table) == ["DEMO-7", "CONN-1"]


def test_a_result_without_an_explanation_shows_its_reason_and_the_lines_that_follow() -> None:
    reason = "DEMO-7 is open\nsince 19:16:02Z"
    result = {"claim": "DEMO-7", "part": "p", "test": "t", "verdict": "VIOLATED", "reason": reason}
    (row,) = parts({"results": [{**result, "measured": None}]}, {})
    assert (row["first"], row["text"]) == ("DEMO-7 is open", "since 19:16:02Z")
