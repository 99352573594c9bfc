# SPDX-License-Identifier: Apache-2.0
"""The suites run with exactly the rights of manifests/rbac, and name missing rights and the
claims that need them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.rbac.conftest import AsRole, run_suite

pytestmark = [pytest.mark.xdist_group("rbac"), pytest.mark.whole_run]


def test_read_only_decides_what_only_reads_and_names_what_it_lacks(
    as_role: AsRole, tmp_path: Path
) -> None:
    run = run_suite(as_role("read-only"), tmp_path, "--allow-cluster-disruptive")
    assert run.code == 0, run.output
    verdicts = run.verdicts()
    assert verdicts["IPAM-1"][0] == "CONFIRMED"
    assert verdicts["PLAT-1"][0] == "CONFIRMED"
    assert {verdict for verdict, _ in verdicts.values()} <= {
        "CONFIRMED",
        "NOT_RUN",
        "NOT_APPLICABLE",
        "NOT_OBSERVED",
    }
    lacking = "the run's user may not create namespaces in all namespaces (needed to create the run's namespaces)"
    assert lacking in verdicts["DEMO-2"][1]
    (note,) = [
        line
        for line in run.output.splitlines()
        if "note: the run's user may not create namespaces" in line
    ]
    assert "create pods/exec" in note
    assert "DEMO-2" in note
    assert "manifests/rbac/standard.yaml" in note


def test_standard_decides_all_but_what_disrupts(as_role: AsRole, tmp_path: Path) -> None:
    suites = (
        "suites/demo",
        "suites/ipam",
        "suites/vxlan/test_vni.py",
        "suites/policy/test_global_policy.py",
    )
    run = run_suite(as_role("standard"), tmp_path, *suites, "-n", "2", "--allow-cluster-disruptive")
    assert run.code == 0, run.output
    for claim, (verdict, reason) in run.verdicts().items():
        if verdict == "NOT_RUN":
            # IPAM-14 tries a patch that stores nothing, for which the role has no right either.
            lacks = (
                "patch IPAMConfiguration" if claim == "IPAM-14" else "create leases.coordination"
            )
            assert f"may not {lacks}" in reason, claim
    assert run.verdicts()["DEMO-6"][0] == "CONFIRMED"


def test_disruptive_decides_all(as_role: AsRole, tmp_path: Path) -> None:
    run = run_suite(
        as_role("disruptive"), tmp_path, "suites/vxlan", "-n", "2", "--allow-cluster-disruptive"
    )
    assert run.code == 0, run.output
    assert {verdict for verdict, _ in run.verdicts().values()} == {"CONFIRMED"}, run.output
