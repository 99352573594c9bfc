# SPDX-License-Identifier: Apache-2.0
"""Several runs of one cluster become one report, the same as a run of everything would have
written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from conformance.catalog import catalog
from conformance.cli import main
from conformance.qualify import outcomes
from conformance.qualify.stored import Report, read
from conformance.verdicts.claims import claim_outcomes
from tests.golden.reports.texts import stored
from tests.golden.schema import schema
from tests.unit.conformance.jobs.stored_runs import (
    Merge,
    Plain,
    another_version,
    areas,
    attempts,
    by_place,
    every_third,
    kept,
    part,
    result_of,
    violated,
)


def test_runs_of_three_areas_say_what_a_run_of_everything_says(
    monkeypatch: pytest.MonkeyPatch, merged: Merge
) -> None:
    whole = kept("whole", monkeypatch)
    code, folder = merged(*areas(whole))
    found = read(folder)
    one = stored("whole")
    again = claim_outcomes(catalog(), one.facts, outcomes.tests(one), whole=True)
    expected = by_place(Report(run={}, facts=None, claims={each.claim.id: each for each in again}))
    assert len(expected) > 1000
    assert by_place(found) == expected
    assert code == one.run["exit_code"]
    assert found.selection == ""
    assert found.cut_short == ""
    assert len(found.plain["tests"]) == len(whole["tests"])


def test_the_merged_report_is_a_report_like_any_other(
    whole: Plain, merged: Merge, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = areas(whole)
    _, folder = merged(*reports)
    assert "claims: " in capsys.readouterr().out
    plain = json.loads((folder / "conformance.json").read_text())
    jsonschema.validate(plain, schema())
    assert [one["id"] for one in plain["run"]["merged"]] == ["run0", "run1", "run2"]
    assert plain["run"]["seconds"] == pytest.approx(3 * whole["run"]["seconds"], abs=0.01)
    dates = {
        claim["evidence"]["date"]
        for claim in plain["claims"]
        if claim["evidence"] and claim["results"]
    }
    assert "2026-11-20" in dates
    assert all(set(date.split(", ")) <= {f"2026-11-2{n}" for n in range(3)} for date in dates)
    assert (folder / "report.html").stat().st_size > 10_000
    assert (folder / "junit-claims.xml").read_text().startswith("<?xml")
    assert main(["show", str(folder)]) == 0
    assert main(["diff", str(folder), str(folder)]) == 0


def test_of_a_test_in_two_runs_the_worse_decision_counts(whole: Plain, merged: Merge) -> None:
    test = next(
        str(result["test"])
        for claim in whole["claims"]
        for result in claim["results"]
        if result["decisions"]
    )
    chosen = [part(whole, number, lambda name: name == test) for number in range(2)]
    claim = violated(chosen[0], test)
    code, folder = merged(*chosen)
    assert code == 1
    found = read(folder)
    assert found.claims[claim].verdict == "VIOLATED"
    assert found.claims[claim].flaky


def test_shards_are_whole_only_together(whole: Plain, merged: Merge, tmp_path: Path) -> None:
    order = sorted(test["test"] for test in whole["tests"])
    parts = [
        part(
            whole, number, every_third(order, number),
            selection=f"part {number + 1}/3 (--shard): the other tests are in the other parts",
        )
        for number in range(3)
    ]  # fmt: skip
    _, folder = merged(*parts)
    assert read(folder).selection == ""
    assert len(read(folder).plain["tests"]) == len(order)
    (tmp_path / "merged").rename(tmp_path / "all")
    _, folder = merged(parts[0], parts[2])
    found = read(folder)
    assert found.selection == "part 2/3 is missing"
    untested = [one.verdict for one in found.claims.values() if not one.results]
    assert None in untested, "its tests may be in the missing part"
    assert any(note == "part 2/3 is missing" for note in found.run["notes"])
    assert main(["gate", str(folder), "--require=core"]) != 0


def test_a_run_that_was_cut_short_counts_until_another_decided_the_rest(
    whole: Plain, merged: Merge, tmp_path: Path
) -> None:
    first = part(whole, 0, lambda test: "/dns/" in test, cut_short="1 planned test was not run")
    second = part(whole, 1, lambda test: "/dns/" in test)
    first["tests"][0] |= {"ran": False, "verdict": "INCONCLUSIVE"}
    for claim in first["claims"]:
        claim["results"] = [
            each for each in claim["results"] if each["test"] != first["tests"][0]["test"]
        ]
    _, folder = merged(first, second)
    assert read(folder).cut_short == ""
    folder.rename(tmp_path / "made up for")
    second["tests"] = second["tests"][1:]
    _, folder = merged(first, second)
    assert read(folder).cut_short == "1 planned test was not run"


def another_uid(plain: Plain) -> None:
    plain["installed"]["cluster_uid"] = "another"


def another_version_on_a_node(plain: Plain) -> None:
    node = next(node["name"] for node in plain["facts"]["nodes"] if node["os"] == "windows")
    plain["facts"]["calico_on_nodes"][node] = {"value": "v3.29.9", "source": "its pod"}


def another_catalog(plain: Plain) -> None:
    plain["suite"]["catalog"] = "0" * 64


def another_revision(plain: Plain) -> None:
    node = next(node for node in plain["facts"]["nodes"] if node["os"] == "windows")
    node["windows_build"][1] += 1


def no_facts(plain: Plain) -> None:
    plain["facts"] = None


def the_same_run(plain: Plain) -> None:
    plain["run"]["id"] = "run1"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (another_uid, "the clusters differ"),
        (another_version, "Calico version is "),
        (another_version_on_a_node, "Calico on node "),
        (another_catalog, "was judged by another catalog (000000000000; this suite has "),
        (another_revision, "node windows-"),
        (no_facts, "does not name its cluster"),
        (the_same_run, "run run1 is named twice"),
    ],
)
@pytest.mark.parametrize("changed", [0, 1])
def test_other_runs_are_refused_before_anything_is_written(  # noqa: PLR0917
    whole: Plain,
    merged: Merge,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Plain], None],
    said: str,
    changed: int,
) -> None:
    reports = areas(whole)[:2]
    change(reports[changed])
    if change is the_same_run:
        reports[1 - changed]["run"]["id"] = "run1"
    code, folder = merged(*reports)
    assert code == 4
    assert not folder.exists()
    error = capsys.readouterr().err
    assert error.startswith("ERROR: not merged: ")
    assert said in error


def test_a_folder_that_exists_is_left_alone(
    whole: Plain, merged: Merge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "merged").mkdir()
    code, folder = merged(*areas(whole))
    assert code == 4
    assert "the folder exists already; name a new folder" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_what_tests_left_is_found_from_the_merged_report(
    whole: Plain, merged: Merge, tmp_path: Path
) -> None:
    reports = areas(whole)
    for number, report in enumerate(reports):
        report["tests"][0]["attachments"] = ["attachments/a/bundle.txt"]
        (tmp_path / f"run-{number}" / "attachments" / "a").mkdir(parents=True)
        (tmp_path / f"run-{number}" / "attachments" / "a" / "bundle.txt").write_text(f"of {number}")
    _, folder = merged(*reports)
    plain = json.loads((folder / "conformance.json").read_text())
    named = {test["test"]: test["attachments"] for test in plain["tests"]}
    for number, report in enumerate(reports):
        (file,) = named[report["tests"][0]["test"]]
        assert (folder / file).read_text() == f"of {number}"


def test_what_an_earlier_run_learnt_of_a_node_stays(whole: Plain, merged: Merge) -> None:
    first, second, _ = areas(whole)
    node = next(node for node in first["facts"]["nodes"] if node["os"] == "windows")
    node["dsr"] = {"value": True, "source": "looked into the node"}
    for each in second["facts"]["nodes"]:
        each["dsr"] = {"value": None, "source": "not known: not read"}
    _, folder = merged(first, second)
    facts = read(folder).facts
    assert facts is not None
    (found,) = [each.dsr for each in facts.nodes if each.name == node["name"]]
    assert (found.value, found.source) == (True, "looked into the node")


def test_what_only_one_of_the_runs_has_is_in_the_merged_report(whole: Plain, merged: Merge) -> None:
    first, second, _ = areas(whole)
    claim = next(
        one for one in first["claims"] if not (one["results"] or result_of(second, one["id"]))
    )
    claim |= {"verdict": "CONFIRMED", "reason": "looked at"}
    first["run"] |= {
        "labels": {"lane": "a", "rack": "1"}, "unverified": "nobody verifies it",
        "selection": A_PART, "notes": [A_PART],
    }  # fmt: skip
    first |= {
        "timings": {"linux.poll": "1 s", "linux.pod_ready": "9 s"},
        "covered": {"linux-1": "kernel 6.8"},
        "attested": {claim["id"]: "looked at"},
        "images": [RAN | {"image": "registry.example/a:1"}],
    }
    second["run"] |= {"labels": {"lane": "b"}, "selection": "smoke", "notes": ["smoke", "a note"]}
    second |= {
        "timings": {"linux.poll": "2 s"},
        "covered": {"windows-2019": "build 17763"},
        "images": [RAN | {"image": "registry.example/b:1"}],
    }
    _, folder = merged(second, first)
    plain = json.loads((folder / "conformance.json").read_text())
    run = plain["run"]
    assert run["started"] == first["run"]["started"]
    assert run["id"] == "run0+run1"
    assert run["labels"] == {"lane": "b", "rack": "1"}, "the newer run's, where both have it"
    assert run["unverified"] == "nobody verifies it"
    assert run["selection"] == "smoke"
    assert run["notes"][1:] == ["smoke", "a note"], "each once, and no part's own"
    assert plain["timings"] == {"linux.poll": "2 s", "linux.pod_ready": "9 s"}
    assert plain["covered"] == {"linux-1": "kernel 6.8", "windows-2019": "build 17763"}
    assert {one["image"] for one in plain["images"]} == {
        "registry.example/a:1", "registry.example/b:1",
    }  # fmt: skip
    assert attempts(plain) == attempts(first) + attempts(second) > 0
    (found,) = [one for one in plain["claims"] if one["id"] == claim["id"]]
    assert (found["verdict"], found["reason"]) == ("CONFIRMED", "looked at")


A_PART = "part 1/1 (--shard): the other tests are in the other parts"
RAN = {"os": "linux", "image_id": "", "nodes": ["linux-1"]}
