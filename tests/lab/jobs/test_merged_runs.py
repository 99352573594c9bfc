# SPDX-License-Identifier: Apache-2.0
"""Merged runs of areas, and merged parts of ``--shard``, have the same verdicts as one run on the
same lab.

Each claim, each of its parts, and each pair of nodes are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from conformance.cli import main
from conformance.qualify.stored import Report, read
from tests.lab.lab_process import RunningLab, running_lab
from tests.lab.rbac.conftest import run_suite

pytestmark = [pytest.mark.whole_run, pytest.mark.xdist_group("merged-runs")]
AREAS = (
    ("platform/test_supported.py", "platform/test_windows_nodes.py", "ipam/test_affinity.py"),
    ("dns/test_servers.py", "services/test_own_service.py", "services/test_node_port.py"),
    ("policy/test_ingress_by_range.py", "resets/test_felix_restart.py"),
)
"""Files of the suite: read facts; traffic; policies, one of them after a disruption."""
CONSENT = "--allow-disruptive"
Place = tuple[str, ...]


def files(area: tuple[str, ...]) -> list[str]:
    return [f"suites/{name}" for name in area]


EVERYTHING = [name for area in AREAS for name in files(area)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(tmp_path_factory.mktemp("lab")) as one:
        yield one


def decided(folder: Path) -> Mapping[Place, str]:
    """Map claim, claim and part, and claim, part, client's and server's node, to the verdict."""
    found: dict[Place, str] = {}
    report: Report = read(folder)
    for name, claim in report.claims.items():
        found[name,] = str(claim.verdict)
        for result in claim.results:
            place = (result.claim, result.part)
            assert place not in found, f"{place}: two tests of this selection decide it"
            found[place] = str(result.verdict)
            for decision in result.decisions:
                found[*place, decision.source, decision.target] = str(decision.verdict)
    return found


@pytest.fixture(scope="module")
def whole(lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> Mapping[Place, str]:
    """What one run decides."""
    run = run_suite(lab.kubeconfig, tmp_path_factory.mktemp("whole"), CONSENT, *EVERYTHING)
    assert run.code == 0, run.output
    found = decided(run.folder)
    sizes = [len([place for place in found if len(place) == size]) for size in (2, 4)]
    assert sizes[0] > 10, "parts"
    assert sizes[1] > 50, "pairs of nodes"
    return found


def merged(lab: RunningLab, folder: Path, *runs: list[str]) -> Path:
    """Return the folder of the merged report of runs with these arguments."""
    reports = [
        run_suite(lab.kubeconfig, folder / str(number), *arguments)
        for number, arguments in enumerate(runs)
    ]
    for run in reports:
        assert run.code == 0, run.output
    together = folder / "merged"
    assert main(["merge", *(str(run.folder) for run in reports), f"--to={together}"]) == 0
    return together


def test_three_areas_say_what_one_run_says(
    lab: RunningLab, whole: Mapping[Place, str], tmp_path: Path
) -> None:
    together = merged(lab, tmp_path, *([CONSENT, *files(area)] for area in AREAS))
    assert decided(together) == whole


def test_three_parts_and_what_disrupts_say_what_one_run_says(
    lab: RunningLab, whole: Mapping[Place, str], tmp_path: Path
) -> None:
    parts = [[f"--shard={number}/3", *EVERYTHING] for number in (1, 2, 3)]
    disruptive = [CONSENT, "-k", "disruptive", *EVERYTHING]
    together = merged(lab, tmp_path, *parts, disruptive)
    assert decided(together) == whole
    assert read(together).selection == ""
