# SPDX-License-Identifier: Apache-2.0
"""Several runs of one cluster are one report, as a run of everything would have written it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from conformance.catalog import catalog
from conformance.cli import main
from conformance.jobs import merge as merging
from conformance.qualify import outcomes
from conformance.qualify.stored import Report, read
from conformance.verdicts.claims import claim_outcomes
from tests.golden.reports.texts import stored
from tests.golden.schema import schema

Plain = dict[str, Any]
Merge = Callable[..., tuple[int, Path]]


def kept(name: str, monkeypatch: pytest.MonkeyPatch) -> Plain:
    """A stored report, judged by a catalog and a suite that have not changed since."""
    report = stored(name)
    tested = {claim for claim, outcome in report.claims.items() if outcome.results}
    monkeypatch.setattr(merging, "digest", lambda: report.suite["catalog"])
    monkeypatch.setattr(merging, "suite_parts", lambda: dict.fromkeys(tested))
    return copy.deepcopy(dict(report.plain))


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> Plain:
    """A stored report of a run of all that a small suite has."""
    return kept("healthy", monkeypatch)


@pytest.fixture
def merged(tmp_path: Path) -> Merge:
    """``calico-conformance merge`` of such reports."""

    def merge(*reports: Plain) -> tuple[int, Path]:
        folders = []
        for number, plain in enumerate(reports):
            folder = tmp_path / f"run-{number}"
            folder.mkdir(exist_ok=True)
            (folder / "conformance.json").write_text(json.dumps(plain))
            folders.append(str(folder))
        return main(["merge", *folders, f"--to={tmp_path / 'merged'}"]), tmp_path / "merged"

    return merge


def part(whole: Plain, number: int, chosen: Callable[[str], bool], **run: Any) -> Plain:
    """The report of a run of some of the tests."""
    plain = copy.deepcopy(whole)
    plain["run"] |= {"id": f"run{number}", "started": f"2026-11-2{number}T10:00:00Z", **run}
    plain["tests"] = [test for test in plain["tests"] if chosen(test["test"])]
    for claim in plain["claims"]:
        claim["results"] = [
            result for result in claim["results"] if result["test"] and chosen(result["test"])
        ]
        if claim["evidence"]:
            claim["evidence"]["date"] = plain["run"]["started"][:10]
        if not claim["results"]:
            claim |= {"verdict": None, "reason": "the selection leaves it out"}
    return plain


def areas(whole: Plain) -> list[Plain]:
    """Runs of three groups of files."""
    files = sorted({test["test"].partition("::")[0] for test in whole["tests"]})
    groups = [set(files[number::3]) for number in range(3)]
    return [part(whole, number, in_files(group)) for number, group in enumerate(groups)]


def in_files(group: set[str]) -> Callable[[str], bool]:
    """Return what chooses the tests of some files."""
    return lambda test: test.partition("::")[0] in group


def every_third(order: list[str], number: int) -> Callable[[str], bool]:
    """Return what chooses the tests of a part."""
    return lambda test: order.index(test) % 3 == number


def by_place(report: Report) -> Mapping[tuple[str, ...], str]:
    """Claim, and claim, part, client's and server's node, to the verdict."""
    found: dict[tuple[str, ...], str] = {
        (name,): str(claim.verdict) for name, claim in report.claims.items()
    }
    for claim in report.claims.values():
        for result in claim.results:
            found[result.claim, result.part] = str(result.verdict)
            for one in result.decisions:
                found[one.claim, one.part, one.source, one.target] = str(one.verdict)
    return found


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


def violated(plain: Plain, test: str) -> str:
    """Let a confirmed decision of a test be VIOLATED; return its claim."""
    for claim in plain["claims"]:
        for result in claim["results"]:
            if result["test"] == test and result["decisions"]:
                for what in (result, result["decisions"][0], claim):
                    what["verdict"] = "VIOLATED"
                (entry,) = [each for each in plain["tests"] if each["test"] == test]
                entry["verdict"] = "VIOLATED"
                return str(claim["id"])
    raise AssertionError(test)


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


def another_version(plain: Plain) -> None:
    plain["facts"]["calico_version"]["value"] = "v3.30.0"


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
        (another_uid, "the cluster is another"),
        (another_version, "calico version: "),
        (another_version_on_a_node, "Calico on node "),
        (another_catalog, "was judged by another catalog (000000000000, here "),
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
    assert "it exists already; name a new folder" in capsys.readouterr().err
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
        each["dsr"] = {"value": None, "source": "not known: nothing was asked"}
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


def result_of(plain: Plain, claim: str) -> Any:
    """Return the results that a report has of a claim."""
    return next(one["results"] for one in plain["claims"] if one["id"] == claim)


def attempts(plain: Plain) -> int:
    """Return how many attempts the agents of all nodes made."""
    return sum(int(node["attempts"]) for node in plain["probing"]["nodes"])


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
    assert "calico version: v3.30.0 here, v3.31.2 there (here: " in capsys.readouterr().err


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
        (no_catalog, "was judged by another catalog (, here "),
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
