# SPDX-License-Identifier: Apache-2.0
"""A merged report's tests, dates, facts and versions, if several runs have them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.qualify.stored import read
from tests.unit.conformance.jobs.stored_runs import (
    Merge,
    Plain,
    another_version,
    areas,
    part,
    result_of,
    violated,
)


def test_the_version_on_a_node_is_the_newest_that_is_known(whole: Plain, merged: Merge) -> None:
    first, second, _ = areas(whole)
    known, again, *_ = first["facts"]["calico_on_nodes"]
    first["facts"]["calico_on_nodes"][known]["source"] = "its pod, then"
    second["facts"]["calico_on_nodes"][known] = {"value": None, "source": "not known: no pod"}
    second["facts"]["calico_on_nodes"][again]["source"] = "its pod, now"
    _, folder = merged(first, second)
    facts = read(folder).facts
    assert facts is not None
    assert facts.calico_on_nodes[known].source == "its pod, then"
    assert facts.calico_on_nodes[again].source == "its pod, now"


def few(whole: Plain, number: int, **run: Any) -> Plain:
    """The report of a run of a few tests."""
    return part(whole, number, lambda test: "/dns/" in test, **run)


def test_the_newest_run_is_the_one_that_began_last(
    whole: Plain, merged: Merge, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first, second = few(whole, 0, id="run9"), few(whole, 1, id="run1")
    for number, report in enumerate((first, second)):
        report["run"]["labels"] = {"lane": str(number)}
        report["run"]["cluster"]["label"] = f"cluster {number}"
        report["suite"]["commit"] = f"commit{number}"
        report["installed"]["components"][0]["nodes"] = [f"linux-{number}"]
    _, folder = merged(second, first)
    plain = json.loads((folder / "conformance.json").read_text())
    assert (plain["run"]["id"], plain["run"]["started"]) == ("run9+run1", "2026-11-20T10:00:00Z")
    assert plain["run"]["labels"] == {"lane": "1"}
    assert plain["run"]["cluster"]["label"] == "cluster 1"
    assert plain["suite"]["commit"] == "commit1"
    assert plain["installed"]["components"][0]["nodes"] == ["linux-1"]
    folder.rename(tmp_path / "before")
    capsys.readouterr()
    another_version(second)
    assert merged(second, first)[0] == 4
    assert re.search(
        r"Calico version is v3\.30\.0 in \S+, v3\.31\.2 in \S+", capsys.readouterr().err
    )


def nameless(plain: Plain) -> None:
    plain["installed"]["cluster_uid"] = ""


def before_clusters_had_names(plain: Plain) -> None:
    plain["schema_version"] = "1"


def no_catalog(plain: Plain) -> None:
    del plain["suite"]["catalog"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (nameless, "does not name its cluster"),
        (before_clusters_had_names, "does not name its cluster"),
        (no_catalog, "was judged by another catalog (; this suite has "),
    ],
)
def test_runs_that_all_lack_what_is_compared_are_refused(
    whole: Plain,
    merged: Merge,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Plain], None],
    said: str,
) -> None:
    reports = [few(whole, number) for number in range(2)]
    for report in reports:
        change(report)
    assert merged(*reports)[0] == 4
    error = capsys.readouterr().err
    assert error.startswith("ERROR: not merged: ")
    assert said in error


@pytest.mark.parametrize(
    ("selections", "missing"),
    [
        (["part 2/3"], "part 1/3 is missing; part 3/3 is missing"),
        (["part 1/2", "part 2/3"], "part 2/2 is missing; part 1/3 is missing; part 3/3 is missing"),
        (["quick", "quick"], "quick"),
    ],
)
def test_each_missing_part_and_each_selection_is_named_once(
    whole: Plain, merged: Merge, selections: list[str], missing: str
) -> None:
    reports = [few(whole, number, selection=words) for number, words in enumerate(selections)]
    _, folder = merged(*reports)
    assert read(folder).selection == missing


def undecided(plain: Plain, **fields: Any) -> str:
    """Let the first test of a report decide nothing; return its name."""
    test = plain["tests"][0]
    test |= fields
    for claim in plain["claims"]:
        claim["results"] = [each for each in claim["results"] if each["test"] != test["test"]]
    return str(test["test"])


def test_a_test_that_was_not_run_is_open_until_another_run_has_decided_it(
    whole: Plain, merged: Merge, tmp_path: Path
) -> None:
    stopped = "--maxfail was reached"
    first, second = few(whole, 0, cut_short=stopped), few(whole, 1)
    undecided(first, verdict="NOT_RUN")
    del second["tests"][0]
    _, folder = merged(first, second)
    assert read(folder).cut_short == stopped
    folder.rename(tmp_path / "open")
    second = few(whole, 1)
    second["tests"].append({**second["tests"][0], "test": "suites/x.py::x", "verdict": "NOT_RUN"})
    _, folder = merged(first, second)
    assert read(folder).cut_short == "", "what else was not run is not what the first run left out"


def test_a_run_that_names_no_test_it_left_out_stays_cut_short(whole: Plain, merged: Merge) -> None:
    first, second = few(whole, 0, cut_short="a limit"), few(whole, 1)
    for test in first["tests"]:
        del test["ran"]
    _, folder = merged(first, second)
    assert read(folder).cut_short == "a limit"


def test_a_test_that_a_later_run_did_not_reach_keeps_its_decision(
    whole: Plain, merged: Merge
) -> None:
    first, second = few(whole, 0), few(whole, 1)
    name = undecided(second, ran=False, verdict="INCONCLUSIVE", reason="not reached")
    _, folder = merged(first, second)
    plain = json.loads((folder / "conformance.json").read_text())
    (found,) = [test for test in plain["tests"] if test["test"] == name]
    assert (found["verdict"], found["reason"]) == ("CONFIRMED", "")


def test_a_test_in_two_runs_is_one_entry_with_the_history_and_the_files_of_both(
    whole: Plain, merged: Merge, tmp_path: Path
) -> None:
    name = next(test["test"] for test in whole["tests"] if "/dns/" in test["test"])
    reports = [part(whole, number, lambda test: test == name) for number in range(3)]
    claim = violated(reports[0], name)
    for number, report in enumerate(reports):
        files = tmp_path / f"run-{number}" / "attachments"
        files.mkdir(parents=True)
        (files / "seen.txt").write_text(f"by run {number}")
        report["tests"][0] |= {
            "reason": f"reason {number}", "attachments": ["attachments/seen.txt"],
        }  # fmt: skip
    reports[2]["tests"][0]["attachments"] = []
    for result in result_of(reports[0], claim):
        result["reason"] = "a leak"
    _, folder = merged(*reports)
    plain = json.loads((folder / "conformance.json").read_text())
    (test,) = plain["tests"]
    assert test["attempts"] == ["VIOLATED", "CONFIRMED", "CONFIRMED"]
    assert test["seconds"] == pytest.approx(3 * whole_seconds(whole, name), abs=0.01)
    assert test["verdict"] == "VIOLATED"
    assert test["reason"] == "FLAKY (VIOLATED, CONFIRMED): a leak"
    seen = [(folder / file).read_text() for file in test["attachments"]]
    assert seen == ["by run 0", "by run 1"], "the decision that counts is the first run's"


def whole_seconds(whole: Plain, name: str) -> float:
    """Return how long a test took."""
    return float(next(test["seconds"] for test in whole["tests"] if test["test"] == name))


def test_notes_and_dates_are_listed_once_and_in_order(
    whole: Plain, merged: Merge, tmp_path: Path
) -> None:
    reports = [few(whole, number, notes=["a note"]) for number in (5, 3, 1, 4, 2)]
    _, folder = merged(*reports)
    plain = json.loads((folder / "conformance.json").read_text())
    assert plain["run"]["notes"][1:] == ["a note"]
    days = [f"2026-11-2{number}" for number in range(1, 6)]
    assert {each["evidence"]["date"] for each in plain["claims"] if each["results"]} == {
        ", ".join(days)
    }
    folder.rename(tmp_path / "five")
    again = few(whole, 5, id="another")
    _, folder = merged(plain, again)
    plain = json.loads((folder / "conformance.json").read_text())
    assert {each["evidence"]["date"] for each in plain["claims"] if each["results"]} == {
        ", ".join(days)
    }, "the earlier report was a merged report"


def test_a_tests_decision_counts_more_than_a_persons(whole: Plain, merged: Merge) -> None:
    first, second = few(whole, 0), few(whole, 1)
    claim = next(each for each in first["claims"] if each["results"])
    claim |= {"results": [], "verdict": "VIOLATED", "reason": "somebody said so"}
    other = next(each for each in first["claims"] if not each["results"])
    first["attested"] = {claim["id"]: "somebody said so", other["id"]: "so, too"}
    _, folder = merged(first, second)
    assert read(folder).claims[claim["id"]].verdict == "CONFIRMED"
    assert read(folder).plain["attested"] == first["attested"]


def test_the_newest_known_fact_counts_and_else_the_newest_word_of_it(
    whole: Plain, merged: Merge
) -> None:
    first, second = few(whole, 0), few(whole, 1)
    unknown = {"value": None, "source": "not known"}
    for day, report in (("then", first), ("now", second)):
        facts = report["facts"]
        windows = [node for node in facts["nodes"] if node["os"] == "windows"]
        windows[0]["dsr"] = {"value": day == "now", "source": day}
        windows[1]["dsr"] = {"value": None, "source": f"not known {day}"}
        facts["calico_on_nodes"][windows[0]["name"]] = {"value": None, "source": f"no pod {day}"}
    first["facts"]["calico_on_nodes"]["linux-1"] = {"value": None, "source": "no pod then"}
    first["facts"]["platform"] = {"value": "aks", "source": "then"}
    second["facts"]["platform"] = unknown
    _, folder = merged(first, second)
    facts = json.loads((folder / "conformance.json").read_text())["facts"]
    found = [node["dsr"]["source"] for node in facts["nodes"] if node["os"] == "windows"]
    assert found[:2] == ["now", "not known now"]
    names = [node["name"] for node in facts["nodes"] if node["os"] == "windows"]
    assert facts["calico_on_nodes"][names[0]]["source"] == "no pod now"
    assert facts["calico_on_nodes"]["linux-1"] == second["facts"]["calico_on_nodes"]["linux-1"]
    assert facts["platform"] == first["facts"]["platform"]


@pytest.mark.parametrize("lacks", [0, 1])
def test_a_version_that_one_run_did_not_find_is_no_other_version(
    whole: Plain, merged: Merge, lacks: int
) -> None:
    reports = [few(whole, number) for number in range(2)]
    node = next(each["name"] for each in whole["facts"]["nodes"] if each["os"] == "windows")
    versions = reports[lacks]["facts"]["calico_on_nodes"]
    versions[node] = {"value": None, "source": "no pod"}
    code, folder = merged(*reports)
    assert code == 0
    facts = read(folder).facts
    assert facts is not None
    assert facts.calico_on(node).known


def test_claims_are_decided_by_what_all_runs_have_found_out(
    whole: Plain, merged: Merge, tmp_path: Path
) -> None:
    reports = areas(whole)
    found = []
    for folder_name in ("with", "without"):
        _, folder = merged(*reports)
        found.append({name: str(one.verdict) for name, one in read(folder).claims.items()})
        folder.rename(tmp_path / folder_name)
        for name in ("platform", "mode", "datastore", "windows_dsr"):
            reports[-1]["facts"][name] = {"value": None, "source": "not known"}
    assert found[0] == found[1]
    assert "NOT_APPLICABLE" in found[0].values()
