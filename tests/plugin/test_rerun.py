# SPDX-License-Identifier: Apache-2.0
"""``--rerun-of`` runs again what was undecided or wrong, on the same cluster only, and hides no
earlier result."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Project, Run

SUITE = """
from pathlib import Path

MENDED = Path("mended").exists()

@verifies("DEMO-5")
def test_leaks():
    if not MENDED:
        raise Nonconformance("expected blocked, observed connected")

@verifies("DEMO-6")
def test_breaks():
    if not MENDED:
        raise EnvironmentBroken("the probe broke")

@verifies("DEMO-7")
def test_lacks():
    if not MENDED:
        raise MissingCapability("no such thing", "get one")

@verifies("ENC-3")
def test_is_fine():
    pass
"""


def started(project: Project, *arguments: str, **told: Any) -> Run:
    (project.path / "lane.yaml").write_text("")
    return project.run(
        "--kubeconfig=lane.yaml", *arguments, STAND_IN=json.dumps({"uid": "u-1", **told})
    )


@pytest.fixture(scope="module")
def rerun(make_project: Callable[[], Project]) -> tuple[Project, Run, Run]:
    """A run, and its rerun once everything has been mended."""
    project = make_project()
    project.suite(SUITE)
    first = started(project)
    assert first.code == 1, first.out
    assert first.folder is not None
    (project.path / "mended").touch()
    assert (project.path / "reports" / "latest").resolve() == first.folder
    return (
        project,
        first,
        started(project, "--rerun-of=reports/latest", "--require=policy", "-n", "2"),
    )


def test_only_what_was_open_or_wrong_is_run_again(rerun: tuple[Project, Run, Run]) -> None:
    _, _, second = rerun
    assert list(second.report["run"]["continues"]["again"].values()) == [
        ["VIOLATED", "CONFIRMED"], ["INCONCLUSIVE", "CONFIRMED"], ["NOT_RUN", "CONFIRMED"],
    ]  # fmt: skip
    assert len(second.report["tests"]) == 4, "what was not run again is in the report too"


def test_a_violated_that_turns_green_stays_violated_and_is_flaky(
    rerun: tuple[Project, Run, Run],
) -> None:
    _, _, second = rerun
    assert second.code == 1, second.out
    assert second.verdict("DEMO-5") == "VIOLATED"
    claim = second.claim("DEMO-5")
    assert claim["reason"] == "FLAKY (VIOLATED, CONFIRMED): expected blocked, observed connected"
    assert claim["flaky"] is True
    assert claim["builds"] == {"20348": "CONFIRMED"}
    assert {gate["answer"] for gate in second.report["gates"]} == {"not qualified"}


@pytest.mark.parametrize("claim", ["DEMO-6", "DEMO-7"])
def test_what_said_nothing_about_the_cluster_gives_way_to_a_later_decision(
    rerun: tuple[Project, Run, Run], claim: str
) -> None:
    _, first, second = rerun
    assert first.verdict(claim) in ("INCONCLUSIVE", "NOT_RUN")
    assert second.verdict(claim) == "CONFIRMED"
    assert second.claim(claim)["flaky"] is False


def test_evidence_has_the_date_of_the_run_that_saw_it_and_an_attestation_is_kept(
    project: Project,
) -> None:
    project.suite(SUITE)
    (project.path / "attest.yaml").write_text(
        "- {claim: PLAT-9, answer: VIOLATED, who: jane, when: 2026-01-02, evidence: ticket 4711}"
    )
    first = started(project, "--attest=attest.yaml").report
    today = first["run"]["started"][:10]
    for claim in first["claims"]:
        if claim["evidence"]:
            claim["evidence"]["date"] = "2026-01-02"
    (project.path / "old.json").write_text(json.dumps(first))
    (project.path / "mended").touch()
    second = started(project, "--rerun-of=old.json")
    dates = {
        claim: second.claim(claim)["evidence"]["date"]
        for claim in ("DEMO-5", "DEMO-7", "ENC-3", "PLAT-9")
    }
    assert dates == {
        "DEMO-5": f"2026-01-02, {today}", "DEMO-7": today, "ENC-3": "2026-01-02", "PLAT-9": "2026-01-02",
    }  # fmt: skip
    assert second.claim("PLAT-9")["verdict"] == "VIOLATED"
    assert second.report["attested"] == {"PLAT-9": "attested by jane on 2026-01-02: ticket 4711"}
    assert second.code == 1, "what a person said is violated counts in a rerun too"


def test_a_rerun_can_be_continued_and_still_shows_what_was_seen_first(
    rerun: tuple[Project, Run, Run],
) -> None:
    project, _, second = rerun
    third = started(project, f"--rerun-of={second.folder}")
    assert list(third.report["run"]["continues"]["again"]) == ["suites/test_it.py::test_leaks"]
    assert third.verdict("DEMO-5") == "VIOLATED"
    assert next(test for test in third.report["tests"] if "leaks" in test["test"])["attempts"] == [
        "VIOLATED", "CONFIRMED", "CONFIRMED",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            {"uid": "u-2"},
            "refused; the clusters differ: the UID of kube-system is u-2 now, u-1 in the report",
        ),
        (
            {"calico_version": "v3.32.0"},
            "refused; Calico version is v3.32.0 now, v3.31.2 in the report",
        ),
        (
            {"windows": 1},
            "refused; node win-1: no such Windows node now, Windows build 20348.2762 in the report",
        ),
    ],
)
def test_another_cluster_or_version_is_refused_in_one_line(
    rerun: tuple[Project, Run, Run], told: dict[str, Any], expected: str
) -> None:
    project, first, _ = rerun
    runs = len(list((project.path / "reports").iterdir()))
    refused = started(project, f"--rerun-of={first.folder}", **told)
    assert refused.code == 4, refused.out
    assert expected in refused.out
    assert len(list((project.path / "reports").iterdir())) == runs, (
        "a refused run leaves no directory"
    )
    assert (project.path / "reports" / "latest" / "conformance.json").exists(), (
        "latest leads to the run before"
    )


def test_another_catalog_is_refused_before_anything_is_touched(
    rerun: tuple[Project, Run, Run],
) -> None:
    project, first, _ = rerun
    other = first.report
    other["suite"]["catalog"] = "0" * 64
    (project.path / "other.json").write_text(json.dumps(other))
    before = (project.path / "cluster.log").read_text()
    refused = started(project, "--rerun-of=other.json")
    assert refused.code == 4, refused.out
    assert "it was judged by another catalog (000000000000; this suite has" in refused.out
    assert (project.path / "cluster.log").read_text() == before


def test_a_runs_own_lab_cannot_be_continued(rerun: tuple[Project, Run, Run]) -> None:
    project, first, _ = rerun
    refused = project.run(f"--rerun-of={first.folder}")
    assert refused.code == 4, refused.out
    assert "name the cluster of that report (--kubeconfig, --context)" in refused.out


def test_a_rerun_that_is_cut_short_says_so(rerun: tuple[Project, Run, Run]) -> None:
    project, first, _ = rerun
    file, body = project.path / "suites" / "test_it.py", "def test_breaks():\n"
    file.write_text(file.read_text().replace(body, f"{body}    raise KeyboardInterrupt\n"))
    cut = started(project, f"--rerun-of={first.folder}")
    assert cut.code == 2, cut.out
    assert (
        cut.report["run"]["cut_short"]
        == "2 planned tests were not run, because the run ended before them"
    )
    assert cut.verdict("DEMO-6") == "INCONCLUSIVE"


def test_a_rerun_over_a_verified_connection_does_not_verify_the_earlier_run(
    make_project: Callable[[], Project],
) -> None:
    project = make_project()
    project.suite(SUITE)
    why = "plain HTTP to http://10.0.0.1: nothing is verified or encrypted"
    started(project, unverified=why)
    (project.path / "mended").touch()
    second = started(project, "--rerun-of=reports/latest", "--require=policy")
    assert second.report["run"]["unverified"] == why
    (gate,) = second.report["gates"]
    assert f"the run unverified: {why}; --accept-unverified-tls accepts it" in gate["obstacles"]
