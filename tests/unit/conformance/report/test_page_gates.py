# SPDX-License-Identifier: Apache-2.0
"""Gates on the page of a run: which builds qualify, the obstacles, and the waivers."""

from __future__ import annotations

import re

from conformance.report.page import render
from tests.unit.conformance.qualify.reports import NEW, OLD, a_gate, decided
from tests.unit.conformance.report.pages import LEAK, plain, section


def test_builds_of_which_a_gate_says_the_same_stand_together() -> None:
    gate = a_gate("incomplete", headline="core on 20348")
    one = gate | {"obstacles": ["POL-1 not selected: the selection leaves it out"]}
    page = render(plain(LEAK) | {"gates": [one, one | {"headline": "core on 17763"}, gate]})
    assert page.count("<li>POL-1 not selected: the selection leaves it out</li>") == 1
    assert "<summary>core on 20348; core on 17763</summary>" in page
    assert page.count('<details class="gate') == 1


def test_a_gate_decides_the_first_line_and_a_lab_never_qualifies() -> None:
    gate = a_gate()
    assert "<h1>Qualified: core; beyond that DEMO-7 violated</h1>" in render(
        plain(LEAK) | {"gates": [gate]}
    )
    good = decided("DEMO-7", {NEW: "CONFIRMED"})
    assert "<h1>Qualified: core</h1>" in render(plain(good) | {"gates": [gate]})
    lab = plain(good, evidence="lab") | {"gates": [gate]}
    assert "<h1>Would qualify: core; results from a lab qualify no release</h1>" in render(lab)
    assert "qualifies no release" in render(lab)
    assert "<h1>Incomplete: core</h1>" in render(
        plain(LEAK) | {"gates": [gate, gate | {"answer": "incomplete"}]}
    )


def test_a_gate_says_once_what_it_says_of_several_claims() -> None:
    lines = [
        "POL-1 not selected: the selection leaves it out",
        "SVC-2 not selected: the selection leaves it out",
    ]
    page = render(plain(LEAK) | {"gates": [a_gate("incomplete", obstacles=lines)]})
    assert "<li>POL-1, SVC-2 not selected: the selection leaves it out</li>" in page


def test_a_gate_tells_what_stands_in_its_way_and_what_was_waived() -> None:
    gate = a_gate("not qualified", obstacles=["DEMO-7 VIOLATED"], waived=["DEMO-5, by jane"])
    page = render(plain(LEAK) | {"gates": [gate]})
    (told,) = re.findall(r'<details class="gate">(.*?)</details>', page, re.DOTALL)
    assert re.findall(r"<summary>(.*)</summary>|<li>(.*?)</li>", told) == [
        (gate["headline"], ""), ("", "DEMO-7 VIOLATED"), ("", "DEMO-5, by jane")
    ]  # fmt: skip


def test_gates_are_a_table_of_all_sets_and_builds_and_mark_what_is_required() -> None:
    answers = [
        {"name": name, "build": build, "answer": answer, "headline": f"{name} on {build}"}
        for name in ("core", "policy")
        for build, answer in ((OLD, "not qualified"), (NEW, "would qualify"))
    ]
    gate = a_gate("not qualified", name="policy", build=OLD)
    page = render(plain(LEAK, evidence="lab") | {"gates": [gate], "sets": answers})
    table = section(page, "gates")
    rows = re.findall(r'<tr><th scope="row">([^<]*)</th>(.*?)</tr>', table)
    assert [(name, re.findall(r">. ([a-z ]+)</td>", cells)) for name, cells in rows] == [
        ("policy (required)", ["not qualified", "would qualify"]),
        ("core", ["not qualified", "would qualify"]),
    ]  # fmt: skip
    assert 'title="core on 17763"' in table
    assert table.count("Results from a lab qualify no release") == 1


def test_what_is_violated_and_in_no_required_set_is_linked_below_the_gates() -> None:
    page = render(plain(LEAK) | {"gates": [a_gate("incomplete")]})
    gates = page.partition('<section id="gates">')[2].partition("</section>")[0]
    assert '<p>also VIOLATED, but in no required set: <a href="#DEMO-7">DEMO-7</a></p>' in gates
    assert "in no required set" not in render(plain(LEAK))
