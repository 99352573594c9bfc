# SPDX-License-Identifier: Apache-2.0
"""The page of a run: names from a cluster are escaped, everything of the report is shown, and no
network is needed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from conformance.report import terminal
from conformance.report.page import render, write
from conformance.report.page.drawing import charts
from tests.unit.conformance.qualify.reports import NEW, OLD, decided
from tests.unit.conformance.report.pages import HOSTILE, LEAK, plain, section


def test_claims_that_fail_of_one_thing_stand_together_under_it_and_the_first_line_says_so() -> None:
    whole = plain(
        LEAK, decided("DEMO-5", {OLD: "VIOLATED"}), decided("DEMO-2", {OLD: "INCONCLUSIVE"})
    )
    why = "windows-2019 does not enforce the policy"
    whole["tests"] = [
        {"test": one["test"], "verdict": "VIOLATED", "cause": why} for one in results_of(whole)
    ]
    page = render(whole)
    assert f"<h1>2 claims are violated: {why}</h1>" in page
    table = page.partition('<section id="causes">')[2].partition("</section>")[0]
    assert re.findall(r'<b>([^<]*)</b>|href="#([^"]*)"', table) == [
        (why, ""), ("", "DEMO-5"), ("", "DEMO-7"), ("", "DEMO-2")
    ]  # fmt: skip
    details = page.partition('<section id="details">')[2].partition("</section>")[0]
    assert f"<b>{why}</b>: 2 claims violated, 1 inconclusive" in details
    assert 'id="open"' not in page, "what fell with them is not told twice"
    next(test for test in whole["tests"] if test["test"] == LEAK["test"])["cause"] = "another"
    assert "<h1>2 claims are violated, for 2 causes</h1>" in render(whole)


def results_of(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """All results of a report's claims."""
    return [result for claim in whole["claims"] for result in claim["results"]]


def test_a_claim_says_why_it_applies_and_what_was_seen_between_nodes() -> None:
    whole = plain(LEAK)
    whole["claims"][0] |= {"applies": "it is about this cluster: mode vxlan (IPPool default)"}
    page = render(whole)
    assert (
        "<dt>Why it applies</dt><dd>it is about this cluster: mode vxlan (IPPool default)</dd>"
        in page
    )
    pairs = re.findall(r"<div class=\"pairs\"><span [^>]*>(.)</span> ([^<\n]*)", page)
    assert pairs == [
        ("\u2715", f"1 pair VIOLATED, Windows {OLD}"),
        ("\u2713", f"1 pair CONFIRMED, reached, Windows {NEW}"),
    ]


def test_lists_cut_what_is_long_and_say_a_cause_once() -> None:
    reason = "DEMO-7: windows-2019 was lost: " + "very long " * 100
    whole = plain(
        decided("DEMO-7", {NEW: "VIOLATED"}) | {"reason": reason},
        decided("DEMO-6", {NEW: "VIOLATED"}),
    )
    first = section(render(whole), "causes")
    assert len(re.sub(r'data-copy="[^"]*"', "", first)) < 2500
    assert " ...</b>" in first
    whole["tests"] = [
        {"test": result["test"], "verdict": "VIOLATED", "cause": "windows-2019 was lost"}
        for claim in whole["claims"] for result in claim["results"]
    ]  # fmt: skip
    assert section(render(whole), "causes").count("<b>windows-2019 was lost</b>") == 1
    lines = [
        line for line, _ in terminal.summary(whole, Path("x")) if "windows-2019 was lost" in line
    ]
    assert lines == ["windows-2019 was lost: 2 claims fail for this cause"]


def test_a_cause_has_its_layer_below_it_and_else_what_to_do() -> None:
    whole = plain(decided("DEMO-7", {NEW: "VIOLATED"}))
    (test,) = {result["test"] for claim in whole["claims"] for result in claim["results"]}
    for lines, shown in (
        ({"do": "exempt the run"}, "exempt the run"),
        ({"do": "exempt the run", "layer": "below HNS' list"}, "below HNS&#39; list"),
        ({}, ""),
    ):
        explanation = {"headline": "DEMO-7: open", "lines": lines}
        whole["tests"] = [
            {"test": test, "verdict": "VIOLATED", "cause": "a leak", "explanation": explanation}
        ]
        found = re.findall(r'class="layer">(.*?)</span>', section(render(whole), "causes"))
        assert found == ([shown] if shown else [])


def test_each_build_has_its_own_verdict() -> None:
    row = re.search(
        r'id="builds".*?<tr><th scope="row"><a href="#DEMO-7">.*?</tr>',
        render(plain(LEAK)),
        re.DOTALL,
    )
    assert row is not None
    assert re.findall(r'title="(VIOLATED|CONFIRMED)"', row[0]) == ["VIOLATED", "CONFIRMED"]


def test_everything_that_a_cluster_named_is_escaped() -> None:
    whole = plain(LEAK | {"reason": HOSTILE, "test": HOSTILE}, notes=[HOSTILE], command=HOSTILE)
    whole["claims"][0] |= {
        "reason": HOSTILE,
        "statement": HOSTILE,
        "sources": [{"title": HOSTILE, "url": "javascript:1"}],
    }
    whole["facts"]["nodes"][0]["name"] = HOSTILE
    whole["facts"]["platform"] = {"value": HOSTILE, "source": HOSTILE}
    page = render(whole, difference=[HOSTILE])
    assert "<img" not in page
    assert "javascript:1" not in page
    assert "49" not in re.findall(r"\"'&amp;(\S+)", page)


def test_versions_nodes_and_their_part_in_the_run_are_told() -> None:
    one = {
        "workload": "calico-node-windows", "container": "felix", "image": "calico/node:v3.31.2", "version": "v3.31.2",
        "digest": "sha256:" + "a" * 64, "nodes": ["win-0"],
    }  # fmt: skip
    installed = {
        "cluster_uid": "u-1",
        "components": [one],
        "kubelets": {"win-0": "v1.34.1"},
        "unread": [],
    }
    page = render(plain(LEAK) | {"installed": installed, "covered": {"win-0": "build 20348"}})
    assert "covered: build 20348" in page
    assert "not covered" in page
    assert "sha256:aaaaaaaaaaaa" in page
    assert "u-1" in page


def test_a_windows_node_has_its_revision_and_a_kb_number_only_where_something_names_it() -> None:
    whole = plain(LEAK)
    silent = render(whole)
    assert "<td>20348.2762</td><td>not known</td>" in silent
    names = ", ".join(node["name"] for node in whole["facts"]["nodes"] if node["os"] == "windows")
    assert f"KB of {names}: not known: not read. Nodes with the same build" in silent
    node = next(node for node in whole["facts"]["nodes"] if node["windows_build"] == [20348, 2762])
    node["update"] = {"value": "KB5044281", "source": "annotation last-update of the node"}
    told = render(whole)
    assert "<td>20348.2762</td><td>KB5044281</td>" in told
    assert f"KB of {node['name']}: annotation last-update of the node." in told


def test_what_may_tell_nodes_of_one_build_apart_is_told_with_the_nodes_that_have_it() -> None:
    whole = plain(LEAK)
    windows = [node for node in whole["facts"]["nodes"] if node["os"] == "windows"]
    for node in windows:
        node["differences"] = {
            "value": {"LanguageMode": "FullLanguage"},
            "source": "a look into the node",
        }
    page = render(whole)
    names = ", ".join(node["name"] for node in windows)
    assert f"LanguageMode</th><td>FullLanguage</td><td>{names}</td>" in page
    assert "Settings in which Windows nodes of the same build may differ" not in render(plain(LEAK))


def test_each_recovery_has_a_bar_the_longest_first() -> None:
    slow, quick = decided("RST-1", {NEW: "CONFIRMED"}), decided("RST-2", {NEW: "CONFIRMED"})
    quick["measured"], slow["measured"] = (
        {"seconds to a new connection": 2.0},
        {"seconds to a new connection": 9.0},
    )
    drawing = section(render(plain(quick, slow)), "times")
    assert re.findall(r"(RST-\d|\d\.\d\d s)</text>", drawing) == [
        "RST-1",
        "9.00 s",
        "RST-2",
        "2.00 s",
    ]


def test_the_page_fetches_nothing() -> None:
    page = render(plain(LEAK))
    assert re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", page) == []
    assert "default-src 'none'" in page


def test_versions_labels_and_contents_stand_above_all() -> None:
    page = render(plain(LEAK, labels={"release": "v3.32.0-rc1", "by": HOSTILE}))
    head = page[page.index("<header") : page.index("</header>")]
    assert "Calico v3.31.2" in head
    assert "Windows 17763.1999 (1 node)" in head or "Windows 17763" in head
    assert "<dt>release</dt><dd>v3.32.0-rc1</dd>" in head
    assert '<a href="#causes">Causes</a>' in head
    assert '<a href="#gates">' not in head


def spread(p50: float, p95: float, longest: float) -> dict[str, float]:
    """Durations of a sort of change."""
    return {"p50": p50, "p95": p95, "max": longest}


def test_all_charts_have_one_axis_of_round_seconds_that_reaches_the_longest() -> None:
    effects = {
        "windows closed": {"stable": spread(0.1, 0.2, 9.0), "changes": 2},
        "linux closed": {"stable": spread(0.1, 0.2, 0.3), "changes": 1},
    }
    found = charts(effects, {"RST-1": 2.0, "RST-2": 0.01, "RST-3": 0.0})
    for chart in found:
        assert [tick["text"] for tick in chart["ticks"]] == [
            "0 s",
            "2 s",
            "4 s",
            "6 s",
            "8 s",
            "10 s",
        ]
        assert chart["ticks"] == found[0]["ticks"]
        assert all(row["max"] <= chart["ticks"][-1]["x"] for row in chart["rows"])
    assert [chart["note"] for chart in found] == ["2 changes", "1 change", "2 others within 0.05 s"]
    assert [row["text"] for row in found[2]["rows"]] == ["2.00 s"]
    assert charts({}, {}) == []


def test_what_was_correct_at_once_for_good_has_one_bar() -> None:
    slow, quick = spread(1.0, 2.0, 3.0), spread(0.1, 0.2, 0.3)
    for stable, labels in (
        (quick, ["as expected for good", "last packet let through"]),
        (slow, ["first as expected", "as expected for good", "last packet let through"]),
    ):
        figures = {"first_correct": quick, "stable": stable, "exposure": quick, "changes": 2}
        (chart,) = charts({"windows closed": figures}, {})
        assert [row["label"] for row in chart["rows"]] == labels


def test_a_claim_tells_all_that_is_known_of_it_and_its_known_issues_on_the_first_screen_too() -> (
    None
):
    whole = plain(LEAK)
    claim = next(claim for claim in whole["claims"] if claim["id"] == "DEMO-7")
    claim |= {
        "known_issues": [{"text": "known to happen on 17763"}],
        "danger": "it cuts connections",
        "remedy": "set it to true",
        "half": "closed paths alone",
        "inapplicable_parts": {"by BGP": "this cluster has none"},
        "missing_parts": ["linux->windows"],
    }
    page = render(whole | {"waived": {"DEMO-7": "DEMO-7, waived by jane"}})
    first, _, below = page.partition('<details class="claim"')
    assert "<br>known to happen on 17763</td>" in first
    assert (
        '<section id="waivers"><h2>Waivers in use</h2><ul><li>DEMO-7, waived by jane</li></ul>'
        in first
    )
    told = below[: below.index('class="part"')]
    assert dict(re.findall(r"<dt>([^<]*)</dt><dd[^>]*>([^<]*)</dd>", told)).items() >= {
        "Known issue": "known to happen on 17763", "Danger": "it cuts connections", "What to do": "set it to true",
        "How far": "closed paths alone", "Waived": "DEMO-7, waived by jane",
    }.items()  # fmt: skip
    assert (
        "1 part is not about this cluster</summary><ul><li><b>by BGP</b>: this cluster has none</li></ul>"
        in told
    )
    assert "1 part without verdict</summary><ul><li>linux-&gt;windows</li></ul>" in told


def test_claims_that_are_not_about_the_cluster_are_behind_one_line_that_counts_them() -> None:
    whole = plain(LEAK)
    others = [claim for claim in whole["claims"] if claim["id"] != "DEMO-7"][:3]
    for claim in others:
        claim |= {"verdict": "NOT_APPLICABLE", "results": []}
    page = render(whole)
    assert "3 not about this cluster" in re.sub(r"<[^>]*>", "", page)
    group = next(
        part
        for part in page.split('<details class="group"')
        if "not about this cluster" in part[:300]
    )
    assert re.findall(r'class="claim" id="([^"]*)"', group) == [claim["id"] for claim in others]


def test_a_page_that_is_written_tells_no_secret_no_address_and_no_path_of_a_machine(
    tmp_path: Path,
) -> None:
    said = f"token: abcdef0123456789 https://10.1.2.3:6443/api {Path.home()}/lane.yaml /srv/ci/lane.yaml"
    command = "pytest --kubeconfig=/srv/ci/lane.yaml '--waivers=C:\\jane doe\\w 1.yaml' suites/demo"
    failed = decided("DEMO-7", {NEW: "VIOLATED"}) | {"reason": said}
    whole = plain(failed, notes=[said], cut_short=said, command=command)
    whole["run"]["cluster"]["label"] = "https://10.1.2.3:6443, context prod"
    write(whole, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for secret in ("abcdef0123456789", "10.1.2.3", f"{Path.home()}/", "/srv/ci", "jane"):
        assert secret not in page
    assert page.count("(here)/lane.yaml") >= 3
    assert (
        "Command: <code>pytest --kubeconfig=lane.yaml &#39;--waivers=w 1.yaml&#39; suites/demo</code>"
        in page
    )


def test_what_no_screen_can_show_is_on_no_page(tmp_path: Path) -> None:
    said = "\u202eturned round \x1b[31m half a pair \ud800 line\r\nnext \u05e9\u05dc\u05d5\u05dd"
    write(plain(decided("DEMO-7", {NEW: "VIOLATED"}) | {"reason": said}), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "\\u202eturned round \\x1b[31m half a pair \\ud800 line" in page
    assert "next \u05e9\u05dc\u05d5\u05dd" in page


def test_counts_cells_and_folds_hold_what_the_report_has() -> None:
    whole = plain(LEAK, decided("DEMO-6", {NEW: "CONFIRMED"}))
    claim = next(claim for claim in whole["claims"] if claim["id"] == "DEMO-7")
    claim |= {"holds": "the client waits in vain", "fails": "the client connects"}
    (result,) = claim["results"]
    result["measured"] = {"seconds to stable answer": 1.5, "MTU": 1350.0}
    next(one for one in result["decisions"] if one["verdict"] == "CONFIRMED")["reason"] = (
        "it stayed closed"
    )
    whole["tests"] = [
        {
            "test": result["test"],
            "verdict": "VIOLATED",
            "explanation": {"headline": "it is open", "table": "a -> b open"},
        }
    ]
    page = render(whole)
    assert "<dt>Holds</dt><dd>the client waits in vain</dd>" in page
    assert "<dt>Fails</dt><dd>the client connects</dd>" in page
    assert "; seconds to stable answer: 1.5; MTU: 1350</p>" in page
    assert "<summary>all paths</summary><pre>a -&gt; b open</pre>" in page
    assert '<p class="text">it stayed closed</p>' in page
    assert (
        '<tr><th scope="row">pod-ip</th><td></td><td><span class="c-VIOLATED" title="VIOLATED">\u2715</span></td>'
        in page
    )
    assert 'value="VIOLATED"> 1 violated</label>' in page
    demo = page.partition('data-filter="Calico demo"')[2].partition("</tr>")[0]
    numbers = [int(number) for number in re.findall(r"<td[^>]*>(\d+)</td>", demo)]
    assert sum(numbers[:-1]) == numbers[-1] > 2
    contents = re.search(r'<nav aria-label="Contents">(.*?)</nav>', page)
    assert contents is not None
    assert '<a href="#causes">' in contents[1]
    assert '<a href="#open">' in render(plain(decided("DEMO-7", {NEW: "ADVISED"})))


def test_a_row_says_in_how_many_results_it_is_so_and_a_claim_why_where_no_row_says_it() -> None:
    parts = [
        decided("CONN-3", {NEW: verdict}) | {"part": verdict}
        for verdict in ("VIOLATED", "CONFIRMED")
    ]
    whole = plain(*parts)
    claim = next(claim for claim in whole["claims"] if claim["id"] == "CONN-3")
    claim["reason"] = "CONN-3: of its own"
    page = render(whole)
    assert "of its own (1 of 2 results)" in page
    assert '<dt>Reason</dt><dd class="text">CONN-3: of its own</dd>' in page


def test_each_area_counts_all_of_its_claims() -> None:
    whole = plain(LEAK, decided("DEMO-6", {NEW: "VIOLATED"}))
    row = render(whole).partition('data-filter="Calico demo"')[2].partition("</tr>")[0]
    assert re.findall(r"<td[^>]*>(\d+)</td>", row)[0] == "2"


def test_texts_of_a_cluster_lose_what_controls_a_screen_and_the_page_s_own_marks_stay() -> None:
    whole = plain(decided("DEMO-7", {NEW: "VIOLATED"}) | {"reason": "a\x1b[31m\u202eb <c>"})
    page = render(whole)
    assert "a\\x1b[31m\\u202eb &lt;c&gt;" in page
    assert not re.search("[\x1b\u202e]", page)
    marked = page.partition("<body")[2]
    assert "&lt;section" not in marked
    assert "<section" in marked


def test_no_line_of_the_page_is_only_an_instruction_of_its_template() -> None:
    lines = render(plain(LEAK)).splitlines()
    assert sum(not line.strip() for line in lines) < len(lines) / 5
