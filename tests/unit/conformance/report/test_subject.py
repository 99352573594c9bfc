# SPDX-License-Identifier: Apache-2.0
"""The cluster, the versions and the suite of a report in words; its gates and its pairs of nodes as
tables."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.report.gate_table import of_report
from conformance.report.page.grid import MARKS, grid, mark
from conformance.report.subject import cluster_name, suite, versions

PLACE = "https://10.0.0.1:6443"


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("context prod", "context prod"),
        (f"{PLACE}, context prod", "context prod"),
        (f"/home/me/lane.yaml, {PLACE}", "kubeconfig"),
        ("profile small, kept", "profile small, kept"),
        ("", "kubeconfig"),
    ],
)
def test_a_cluster_is_named_without_addresses_and_paths(label: str, name: str) -> None:
    assert cluster_name({"label": label, "how": "kubeconfig"}) == name


def test_versions_that_are_known_are_named_and_builds_counted() -> None:
    nodes = [
        {"os": "windows", "windows_build": build}
        for build in ([20348, 2762], [20348, 2762], [17763, 1], None)
    ]
    facts = {
        "calico_version": {"value": "v3.31.2"},
        "kubernetes_version": {"value": None},
        "nodes": [*nodes, {"os": "linux", "windows_build": None}],
    }
    assert versions(facts) == [
        "Calico v3.31.2",
        "Windows 17763.1 (1 node)",
        "Windows 20348.2762 (2 nodes)",
        "Windows of unknown build (1 node)",
    ]
    assert versions({}) == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "suite of unknown version, catalog unknown"),
        ({"version": "1.0", "catalog": "0123456789abcdef"}, "suite 1.0, catalog 0123456789ab"),
        ({"version": "1.0", "commit": "abc"}, "suite 1.0 (abc), catalog unknown"),
    ],
)
def test_the_suite_is_named_by_version_commit_and_catalog(found: Any, words: str) -> None:
    assert suite({"suite": found}) == words


def a_gate(name: str, build: str, answer: str) -> dict[str, str]:
    return {"name": name, "build": build, "answer": answer, "headline": f"{name} {answer}"}


def test_required_sets_come_first_and_have_the_answers_that_decided_the_run() -> None:
    plain = {
        "gates": [a_gate("core", "17763", "failed"), a_gate("core", "20348", "qualified")],
        "sets": [
            a_gate("core", "17763", "qualified"),
            a_gate("policy", "26100", "incomplete"),
        ],
    }
    table = of_report(plain)
    assert [*table.builds] == ["17763", "20348", "26100"]
    assert [(row.name, row.required, dict(row.answers)) for row in table.rows] == [
        ("core", True, {"17763": "failed", "20348": "qualified"}),
        ("policy", False, {"26100": "incomplete"}),
    ]
    assert table.rows[0].headlines["17763"] == "core failed"


def test_a_report_without_gates_has_no_rows() -> None:
    assert (of_report({}).rows, of_report({"gates": None}).builds) == ([], [])


def between(source: str, target: str, *verdicts: str) -> list[dict[str, str]]:
    return [{"source": source, "target": target, "verdict": verdict} for verdict in verdicts]


def test_a_cell_has_the_worst_verdict_and_counts_all_unless_all_is_well() -> None:
    found = grid(
        [
            *between("w1", "l1", "CONFIRMED", "VIOLATED", "CONFIRMED", "INCONCLUSIVE"),
            *between("w1", "w1", "CONFIRMED", "NOT_OBSERVED"),
            *between("l1", "", "NOT_RUN"),
            *between("", "w1", "VIOLATED"),
        ],
        ["l1", "w1", "w2"],
    )
    assert [*found.servers] == ["l1", "w1", "beyond"]
    assert list(found.rows) == ["l1", "w1"]
    cells = {
        client: [cell and (cell.verdict, cell.title) for cell in row]
        for client, row in found.rows.items()
    }
    assert cells == {
        "l1": [None, None, ("NOT_RUN", "l1 to beyond: 1 NOT_RUN")],
        "w1": [
            ("VIOLATED", "w1 to l1: 1 VIOLATED, 1 INCONCLUSIVE, 2 CONFIRMED"),
            ("CONFIRMED", ""),
            None,
        ],
    }
    assert found.has_pairs


def test_nodes_are_in_the_cluster_s_order_and_unknown_ones_behind_them() -> None:
    found = grid(
        [line for name in ("b", "z", "a", "y") for line in between(name, "b", "CONFIRMED")],
        ["b", "a"],
    )
    assert list(found.rows) == ["b", "a", "y", "z"]


@pytest.mark.parametrize(
    ("pairs", "several"),
    [
        ([("a", "b")], False),
        ([("a", "b"), ("a", "c")], True),
        ([("a", "b"), ("b", "b")], True),
        ([], False),
    ],
)
def test_one_pair_is_no_grid(pairs: list[tuple[str, str]], several: bool) -> None:
    assert (
        grid([line for pair in pairs for line in between(*pair, "CONFIRMED")], []).has_pairs
        is several
    )


def test_every_other_verdict_has_the_same_mark() -> None:
    assert {mark(verdict) for verdict in ("UNMET", "LIFTED", "ADVISED")} == {"!"}
    assert mark("VIOLATED") == MARKS["VIOLATED"] != mark("CONFIRMED")
