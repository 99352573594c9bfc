# SPDX-License-Identifier: Apache-2.0
"""Two versions of Calico in one cluster, as on AKS: claims about Windows follow the version of
the Windows nodes, however it becomes known, and reports name what makes two Windows nodes of one
build differ."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.lab_process import RunningLab, running_lab
from tests.lab.rbac.conftest import Run, run_suite

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
    pytest.mark.xdist_group("two-versions"),
    pytest.mark.whole_run,
]

SWITCH = "hns\\State HnsAclUpdateChange"
LISTED = ("--claim", "PLAT-6", "--claim", "XPOL-13", "-k", "build_is_listed or later_tier")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(tmp_path_factory.mktemp("lab"), "--profile", "two-versions") as one:
        yield one


def windows(run: Run) -> list[dict[str, Any]]:
    return [node for node in run.report["facts"]["nodes"] if node["os"] == "windows"]


def test_the_version_on_windows_is_read_there_and_decides(lab: RunningLab, tmp_path: Path) -> None:
    run = run_suite(lab.kubeconfig, tmp_path, *LISTED, "-n", "1")
    there = {name: fact["value"] for name, fact in run.report["facts"]["calico_on_nodes"].items()}
    assert there == {
        "linux-1": "v3.31.2",
        "linux-2": "v3.31.2",
        "windows-a": "v3.24.0",
        "windows-b": "v3.24.0",
    }
    verdicts = run.verdicts()
    assert (verdicts["PLAT-6"][0], verdicts["XPOL-13"][0]) == ("UNMET", "NOT_APPLICABLE"), (
        run.output
    )
    assert (
        "here: Calico v3.24.0 (C:\\CalicoWindows\\calico-node.exe -v on node windows-a)"
        in verdicts["XPOL-13"][1]
    )
    assert {node["name"]: node["differences"]["value"][SWITCH] for node in windows(run)} == {
        "windows-a": "1", "windows-b": "0",
    }  # fmt: skip
    names = {".NET Release", "Culture", "LanguageMode", SWITCH}
    assert all(names <= set(node["differences"]["value"]) for node in windows(run))
    page = (run.folder / "report.html").read_text()
    assert "<td>1</td><td>windows-a</td>" in page
    assert "<td>0</td><td>windows-b</td>" in page
    assert "Calico v3.24.0" in (run.folder / "junit-claims.xml").read_text()


def test_a_version_that_is_named_decides_and_stands_in_every_output(
    lab: RunningLab, tmp_path: Path
) -> None:
    named = ("--claim", "PLAT-6", "--windows-calico-version", "v3.26.1")
    run = run_suite(lab.kubeconfig, tmp_path, *named, "-n", "1")
    assert run.verdicts()["PLAT-6"][0] == "CONFIRMED", run.output
    told = "Windows nodes judged as Calico v3.26.1, by --windows-calico-version"
    assert told in run.report["run"]["notes"]
    assert f"note: {told}" in run.output
    assert told in (run.folder / "report.html").read_text()
    assert "Calico v3.26.1" in (run.folder / "junit-claims.xml").read_text()
