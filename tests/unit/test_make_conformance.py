# SPDX-License-Identifier: Apache-2.0
"""``make conformance`` ends with the whole run's answer; other labs print one line each, and
their output if they fail."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"
PYTEST = """#!/bin/sh
echo "pytest $*" >>calls
case "$*" in
  *--lab-profile=*) echo 'claims: 2 still there'; case "$*" in *$BROKEN*) echo 'why it failed'; exit 1;; esac;;
  *) echo 'the whole run'; exit ${WHOLE:-0};;
esac
"""
SUITE = """#!/bin/sh
echo "calico-conformance $*" >>calls
case "$1" in
  gate) echo 'core on Windows 20348 (mode vxlan): would qualify';;
  show) printf 'run 1\\n%sCONFIRMED    CONN-1\\n\\nclaims: 67 CONFIRMED\\n' "$SEEN"
        echo 'report: reports/1/conformance.json  (exit code 0)';;
esac
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("pytest", PYTEST), ("calico-conformance", SUITE)):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    return tmp_path


def made(folder: Path, **variables: str) -> tuple[int, list[str], list[str]]:
    """Return the exit code, the lines of the output, and the commands that were called."""
    command = [
        "make",
        "--silent",
        "-f",
        str(MAKEFILE),
        "check-conformance",
        f"BIN={folder / 'bin'}",
    ]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "BROKEN": "none", **variables}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.splitlines(), (folder / "calls").read_text().splitlines()


def test_a_machine_that_lacks_something_is_told_once(folder: Path) -> None:
    code, told, calls = made(folder, WHOLE="7")
    assert (code, calls) == (2, ["pytest -n auto"])
    assert told[0] == "the whole run"
    assert not [line for line in told[1:] if not re.match(r"make(\[\d+\])?: \*\*\*", line)]


def test_the_whole_run_comes_first_and_its_answer_last_with_a_line_for_each_other_lab(
    folder: Path,
) -> None:
    code, told, calls = made(folder)
    assert (code, calls[0]) == (0, "pytest -n auto"), "others run after it"
    assert sorted(re.findall(r"--lab-profile=(\S+)", " ".join(calls[1:6]))) == [
        "aks-operator",
        "bgp",
        "eks-no-dsr",
        "static-routes",
        "vxlan-1809",
    ]
    assert [line.partition(",")[0] for line in told if line.startswith("lab ")] == [
        "lab vxlan-1809", "lab eks-no-dsr", "lab bgp", "lab aks-operator", "lab static-routes",
    ]  # fmt: skip
    assert "lab eks-no-dsr, -k 'snat': 2 still there; exit code 0, reports/eks-no-dsr.log" in told
    assert told[-3:] == [
        "core on Windows 20348 (mode vxlan): would qualify",
        "claims: 67 CONFIRMED",
        "report: reports/1/report.html  (exit code 0)",
    ]


@pytest.mark.parametrize(
    ("profile", "own"), [("aks-operator", {"AKS-2"}), ("static-routes", {"CP-2"})]
)
def test_labs_that_calico_does_not_route_run_paths_services_first_moments_and_their_own_claims(
    folder: Path, profile: str, own: set[str]
) -> None:
    _, _, calls = made(folder)
    (run,) = (call for call in calls if f"--lab-profile={profile} " in call)
    words = set(run.partition("-k ")[2].partition(" --lab")[0].split(" or "))
    assert words >= {"CONN-3", "CONN-4", "CP-1", "NAT-1", "XSVC-5", "XPOL-23"} | own


def test_a_lab_that_fails_shows_its_output_and_fails_it_all(folder: Path) -> None:
    code, told, calls = made(folder, BROKEN="eks-no-dsr")
    assert code != 0
    assert told.count("why it failed") == 1
    assert "lab eks-no-dsr, -k 'snat': 2 still there; exit code 1, reports/eks-no-dsr.log" in told
    assert not [call for call in calls if call.startswith("calico-conformance gate")], (
        "nothing would qualify"
    )


@pytest.mark.parametrize("whole", ["1", "6"])
def test_a_whole_run_that_fails_fails_it_all_and_its_answer_stands_below_the_other_labs(
    folder: Path, whole: str
) -> None:
    seen = "w1 does not enforce the policy: 2 claims fail for this cause\n  VIOLATED     DEMO-5\nINCONCLUSIVE CONN-6\n"
    code, told, _ = made(folder, WHOLE=whole, SEEN=seen)
    assert code != 0
    last = next(number for number, line in enumerate(told) if line.startswith("lab static-routes"))
    assert [*told[last + 1 : last + 6]] == [
        *seen.splitlines(),
        "claims: 67 CONFIRMED",
        told[last + 5],
    ]
    assert told[last + 5].startswith("report: reports/1/report.html")


def test_of_a_run_that_left_no_report_nothing_is_shown_that_an_earlier_one_found(
    folder: Path,
) -> None:
    code, told, calls = made(folder, WHOLE="3")
    assert code != 0
    assert [call for call in calls if call.startswith("calico-conformance")] == []
    assert len([line for line in told if line.startswith("lab ")]) == 5
