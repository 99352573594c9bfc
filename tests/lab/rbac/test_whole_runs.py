# SPDX-License-Identifier: Apache-2.0
"""The field guide's three commands and a restore under each role, as a user of a real cluster gives them.

Every test runs, with the judge's own patience, on a lab as slow as a real cluster.

``make check-roles`` runs it and prints how long each command took.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path

import pytest

from conformance.kube.client import Kube
from tests.lab.rbac.conftest import AsRole, run_pytest, run_suite
from tests.lab.rbac.test_field_run import HOLDS_LOCK, MAKES_NAMESPACES, SLOW, left
from tests.reliability.snapshot import Snapshot

pytestmark = [pytest.mark.xdist_group("whole-runs"), pytest.mark.slow]

REAL = {
    **SLOW, "linux_policy_delay_ms": 200, "windows_policy_delay_ms": 500, "image_pull_ms": 5000,
    "pod_start_ms": 1500, "daemon_replaced_ms": 5000,
}  # fmt: skip
"""The times of a real cluster with warm caches; pulls of server core take minutes longer."""
LAB = tuple(word for name, value in REAL.items() for word in ("--set", f"timing.{name}={value}"))
ALLOWED = ("--allow-disruptive", "--allow-cluster-disruptive", "--external-target=198.51.100.10")
"""Every flag that lets a test run; the address is the lab's host beyond the cluster."""
WITHIN = 3000.0
"""Seconds; only a run that hangs is caught."""
NO_TEST = "there is no test for it yet"
"""Said of claims of which a half has none."""
HEALTHY = {"CONFIRMED", "NOT_RUN", "NOT_APPLICABLE", "NOT_OBSERVED"}


@pytest.mark.parametrize(
    ("role", "lacks", "smoke_ends", "decided"),
    [
        ("read-only", MAKES_NAMESPACES, 7, {"IPAM-1"}),
        ("standard", HOLDS_LOCK, 0, {"IPAM-1", "DEMO-6", "CONN-1"}),
        (
            "disruptive",
            "",
            0,
            {"IPAM-1", "DEMO-6", "CONN-1", "RST-3", "XOP-3", "VXLAN-9", "VXLAN-10"},
        ),
    ],
)
def test_the_field_guides_commands_are_right_under_a_role(
    *,
    as_role: AsRole,
    kube: Kube,
    before: Snapshot,
    tmp_path: Path,
    role: str,
    lacks: str,
    smoke_ends: int,
    decided: set[str],
) -> None:
    kubeconfig, took = as_role(role), dict[str, float]()

    def timed(word: str, began: float) -> None:
        took[word] = time.monotonic() - began

    began = time.monotonic()
    plan = run_pytest(kubeconfig, tmp_path / "plan", "--plan", *ALLOWED, timings=None)
    timed("plan", began)
    assert plan.returncode == 0, plan.stdout + plan.stderr

    began = time.monotonic()
    smoke = run_suite(
        kubeconfig, tmp_path / "smoke", "--smoke", "-n", "0", timings=None, within=WITHIN
    )
    timed("smoke", began)
    assert smoke.code == smoke_ends, smoke.output

    began = time.monotonic()
    run = run_suite(
        kubeconfig, tmp_path / "whole", "-n", "auto", *ALLOWED, timings=None, within=WITHIN
    )
    timed("whole", began)
    print(run.output)
    assert run.code == 0, run.output
    verdicts = run.verdicts()
    assert {verdict for verdict, _ in verdicts.values()} <= HEALTHY, run.output
    assert {claim: verdicts[claim][0] for claim in decided} == dict.fromkeys(decided, "CONFIRMED")
    not_run = {
        claim: reason
        for claim, (verdict, reason) in verdicts.items()
        if verdict == "NOT_RUN" and not reason.endswith(NO_TEST)
    }
    assert {
        claim: why for claim, why in not_run.items() if not lacks or "run's user may not" not in why
    } == {}
    assert {claim for claim in not_run if lacks in not_run[claim]} or not lacks
    planned = dict(re.findall(r"^  (\S+) +(runs|NOT_RUN) ", plan.stdout, re.MULTILINE))
    # A claim of which only some tests can run is planned as one that runs, and may end NOT_RUN for the others.
    assert {claim for claim, word in planned.items() if word == "NOT_RUN"} <= set(not_run)

    began = time.monotonic()
    restore = run_pytest(kubeconfig, tmp_path / "restore", "--restore", timings=None)
    timed("restore", began)
    assert restore.returncode == 0, restore.stdout + restore.stderr
    assert left(kube, before) == []
    estimates = [line for line in plan.stdout.splitlines() if "estimate" in line]
    print(
        role,
        {word: f"{seconds:.0f} s" for word, seconds in took.items()},
        Counter(v for v, _ in verdicts.values()),
    )
    print(*estimates, sep="\n")
