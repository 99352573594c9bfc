# SPDX-License-Identifier: Apache-2.0
"""A run's plan, its lists and its workers, before it begins."""

from __future__ import annotations

import json

import pytest

from conformance.plugin.options import LAB_WORKERS

from .conftest import Project
from .small_suite import SUITE


@pytest.fixture
def project(project: Project) -> Project:
    project.suite(SUITE)
    return project


# --- lists ------------------------------------------------------------------------------------------------------------


def test_the_plan_says_for_every_claim_what_would_happen_and_runs_nothing(project: Project) -> None:
    run = project.run("--plan", "--no-disruptive")
    assert run.code == 0
    lines = {
        line.split()[0]: " ".join(line.split()[1:])
        for line in run.out.splitlines()
        if line.startswith("  ")
    }
    assert lines["VXLAN-1"] == "runs 1 test"
    assert lines["BGP-1"] == "NOT_APPLICABLE it is about mode bgp; here: mode vxlan (stand-in)"
    assert lines["RST-3"].startswith("NOT_RUN it changes something outside")
    assert lines["PLAT-1"].startswith("no test")
    assert lines["PLAT-9"].startswith("NOT_APPLICABLE")
    assert lines["IPAM-12"].startswith("NOT_APPLICABLE")
    assert ("reports in" in run.out, "generated xml" in run.out) == (False, False)


@pytest.mark.parametrize("option", ["--plan", "--dry-run"])
def test_what_is_only_told_leaves_the_reports_as_they_were(project: Project, option: str) -> None:
    """Else the next gate or baseline of reports/latest finds nothing there."""
    assert project.run("-k", "dns").folder is not None
    before = (
        sorted((project.path / "reports").iterdir()),
        (project.path / "reports" / "latest").readlink(),
    )
    project.run(option)
    assert (
        sorted((project.path / "reports").iterdir()),
        (project.path / "reports" / "latest").readlink(),
    ) == before


@pytest.mark.parametrize(
    "arguments", [["--list-claims"], ["--collect-only"], ["--collect-only", "-n", "2"], ["--help"]]
)
def test_lists_touch_no_cluster_and_leave_no_report(project: Project, arguments: list[str]) -> None:
    run = project.run(*arguments)
    assert run.code == 0
    assert not (project.path / "cluster.log").exists()
    assert not (project.path / "reports").exists()


def test_the_list_of_claims_counts_tests(project: Project) -> None:
    out = project.run("--list-claims").out
    assert "  VXLAN-1   1 test " in out
    assert "  PLAT-1    0 tests" in out
    assert "  PLAT-9    by hand" in out
    assert "\n5 of " in out
    assert " testable claims have tests" in out


def test_one_claim_is_listed_with_its_sources(project: Project) -> None:
    out = project.run("--list-claims", "--claim", "RST-1").out
    assert "https://github.com/projectcalico/calico/issues/10199" in out
    assert "VXLAN-1" not in out


@pytest.mark.parametrize("arguments", [["--collect-only", "-q"], ["--help"], ["--list-claims"]])
def test_lists_do_not_load_the_kubernetes_client(project: Project, arguments: list[str]) -> None:
    (project.path / "stand_in_cluster.py").write_text(
        "import atexit, sys\natexit.register(lambda: open('modules', 'w').write('\\n'.join(sys.modules)))\n"
    )
    project.finish(project.start(*arguments))
    loaded = (project.path / "modules").read_text().split()
    assert "conformance.plugin" in loaded
    assert "kubernetes" not in loaded


# --- workers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "workers"),
    [({}, LAB_WORKERS.at_most), ({"free": 20}, 2), ({"free": 2}, 1)],
)
def test_auto_follows_what_a_worker_costs_and_says_why(
    project: Project, told: dict[str, int], workers: int
) -> None:
    run = project.run("-n", "auto", STAND_IN=json.dumps(told))
    assert f"{workers} worker{'' if workers == 1 else 's'} [" in run.out
    left = told.get("free", 0) - LAB_WORKERS.watch
    why = (
        f"win-0 has {left} free addresses, 9 per worker"
        if told
        else "this is the maximum of -n auto"
    )
    assert f"workers: {workers}, because {why}; 4 nodes are tested" in run.out


def test_one_cluster_serves_all_workers(project: Project) -> None:
    project.suite(
        '@verifies("CONN-1")\ndef test_door(cluster, facts, settings): assert cluster == "door"',
        "test_b.py",
    )
    run = project.run("-n", "2")
    log = (project.path / "cluster.log").read_text().split("\n")
    assert run.code == 0
    assert (log.count("begin"), log.count("open"), log.count("inspect")) == (1, 1, 1)
    assert log.count("connect") == 1
    assert log.index("connect") < log.index("close")


def test_auto_on_an_unusable_cluster_is_7(project: Project) -> None:
    assert project.run("-n", "auto", STAND_IN='{"unusable": ["no route to host"]}').code == 7


@pytest.mark.parametrize("given", ["3", "4"])
def test_more_workers_than_auto_would_start_are_started_and_the_header_says_what_to_expect(
    project: Project, given: str
) -> None:
    run = project.run("--kubeconfig=lane.yaml", "-n", given, "-k", "dns")
    told = [line for line in run.out.splitlines() if line.startswith("workers: ")]
    assert len(told) == 1, run.out
    assert told[0].startswith(
        f"workers: {given}, as given by -n; -n auto would start 2, because a Windows node can "
        "start 2 PowerShells at once; 4 nodes are tested. Additional workers wait for pods and "
        "agents (at most 12 live agents on a Windows node)"
    )
    assert f"created: {given}/{given} workers" in run.out


@pytest.mark.parametrize("given", ["0", "1", "2"])
def test_of_no_more_workers_than_auto_would_start_nothing_is_said(
    project: Project, given: str
) -> None:
    assert "workers: " not in project.run("--kubeconfig=lane.yaml", "-n", given, "-k", "dns").out
