# SPDX-License-Identifier: Apache-2.0
"""The field guide's commands under each role, on a lab as slow as a real cluster: missing rights
are named first.

The commands are a plan, a smoke test, a run, and a restore after a killed run. A refused command
leaves the cluster unchanged.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.journal.store import entries_of, journals
from conformance.kube.client import Kube
from conformance.kube.ownership import SYSTEM_NAMESPACE
from tests.lab.lab_process import RunningLab
from tests.lab.rbac.conftest import ROOT, AsRole, command, environment, run_pytest, run_suite
from tests.reliability import snapshot
from tests.reliability.kills import WHOLE
from tests.reliability.snapshot import Snapshot

pytestmark = [pytest.mark.xdist_group("field-run"), pytest.mark.whole_run]

SLOW = {"exec_cost_ms": 500, "powershell_start_ms": 1500, "windows_refused_ms": 1000}
"""Of a real cluster: an exec through API server and kubelet, the start of PowerShell 5.1, a refused connection."""
LAB = tuple(word for name, value in SLOW.items() for word in ("--set", f"timing.{name}={value}"))
CHANGING = ("suites/vxlan/test_vni.py", "--allow-cluster-disruptive")
CHANGED_WITHIN = 120.0
"""Seconds; only a run that hangs is caught."""
MAKES_NAMESPACES = "the run's user may not create namespaces in all namespaces (needed to create the run's namespaces)"
NAMES_BACKENDS = "may not create endpointslices.discovery.k8s.io"
HOLDS_LOCK = "the run's user may not create leases.coordination.k8s.io in calico-conformance-system"


def left(kube: Kube, before: Snapshot) -> list[str]:
    """Return the differences from before, once controllers have done their work, except the empty
    namespace of run locks."""

    def differences() -> list[str]:
        lines = snapshot.differences(before, snapshot.take(kube))
        return [
            line
            for line in lines
            if not (line.startswith("left over:") and SYSTEM_NAMESPACE in line)
        ]

    deadline = time.monotonic() + 30.0
    while (found := differences()) and time.monotonic() < deadline:
        time.sleep(0.5)
    held = [*journals(kube), *kube.objects("coordination.k8s.io/v1", "Lease", SYSTEM_NAMESPACE)]
    return found + [f"left over: {held_object['metadata']['name']}" for held_object in held]


@pytest.mark.parametrize(
    ("role", "lacks", "runs"),
    [
        ("read-only", MAKES_NAMESPACES, {"IPAM-1"}),
        ("standard", HOLDS_LOCK, {"IPAM-1", "DEMO-6"}),
        ("disruptive", NAMES_BACKENDS, {"IPAM-1", "DEMO-6", "VXLAN-10"}),
    ],
)
def test_a_plan_makes_nothing_and_names_what_the_role_may_not(
    *,
    as_role: AsRole,
    kube: Kube,
    before: Snapshot,
    tmp_path: Path,
    role: str,
    lacks: str,
    runs: set[str],
) -> None:
    done = run_pytest(as_role(role), tmp_path, "--plan", "--allow-cluster-disruptive")
    assert done.returncode == 0, done.stdout + done.stderr
    assert lacks in done.stdout
    planned = dict(re.findall(r"^  (\S+) +(runs|NOT_RUN) ", done.stdout, re.MULTILINE))
    assert {claim for claim in ("IPAM-1", "DEMO-6", "VXLAN-10") if planned[claim] == "runs"} == runs
    assert snapshot.differences(before, snapshot.take(kube)) == []


def test_a_smoke_test_without_the_right_to_make_pods_touches_nothing(
    as_role: AsRole, kube: Kube, before: Snapshot, tmp_path: Path
) -> None:
    run = run_suite(as_role("read-only"), tmp_path, "--smoke", "-n", "0")
    assert {verdict for verdict, _ in run.verdicts().values()} == {"NOT_RUN"}, run.output
    assert all(MAKES_NAMESPACES in reason for _, reason in run.verdicts().values())
    assert "manifests/rbac/standard.yaml" in run.output
    assert snapshot.differences(before, snapshot.take(kube)) == []


@pytest.mark.parametrize("role", ["standard", "disruptive"])
def test_a_smoke_test_confirms_that_probes_work_and_leaves_nothing(
    *, as_role: AsRole, kube: Kube, before: Snapshot, tmp_path: Path, role: str
) -> None:
    run = run_suite(as_role(role), tmp_path, "--smoke", "-n", "0")
    assert run.code == 0, run.output
    assert {verdict for verdict, _ in run.verdicts().values()} == {"CONFIRMED"}, run.output
    assert left(kube, before) == []


@pytest.mark.slow
def test_a_run_without_the_right_to_disrupt_changes_no_vni(
    as_role: AsRole, kube: Kube, before: Snapshot, tmp_path: Path
) -> None:
    run = run_suite(as_role("standard"), tmp_path, *CHANGING, "suites/demo", "-n", "2")
    assert run.code == 0, run.output
    verdicts = run.verdicts()
    assert verdicts["DEMO-6"][0] == "CONFIRMED"
    assert verdicts["VXLAN-10"][0] == "NOT_RUN"
    assert HOLDS_LOCK in verdicts["VXLAN-10"][1]
    assert left(kube, before) == []


@pytest.mark.slow
def test_a_run_with_all_rights_changes_the_vni_and_puts_it_back(
    as_role: AsRole, kube: Kube, before: Snapshot, tmp_path: Path
) -> None:
    run = run_suite(as_role("disruptive"), tmp_path, *CHANGING, "-n", "2")
    assert run.code == 0, run.output
    assert {verdict for verdict, _ in run.verdicts().values()} == {"CONFIRMED"}, run.output
    assert left(kube, before) == []


@pytest.fixture
def services_die(lab: RunningLab) -> Iterator[None]:
    """Services of Windows nodes stay dead once the HNS network is removed, until kube-proxy starts again."""
    config = ("--kubeconfig", str(lab.kubeconfig))
    injected = lab.hybridlab("faults", *config, "inject", "services-lost-with-network")
    assert injected.returncode == 0, injected.stderr
    yield
    lab.hybridlab("faults", *config, "heal", injected.stdout.strip())


@pytest.mark.slow
@pytest.mark.usefixtures("services_die")
def test_what_a_killed_run_left_is_put_back_by_who_may_and_named_to_who_may_not(
    as_role: AsRole, kube: Kube, before: Snapshot, tmp_path: Path
) -> None:
    kill_in_the_middle(as_role("disruptive"), kube, tmp_path)
    journalled = open_entries(kube)
    assert journalled
    for role in ("read-only", "standard"):
        refused = run_pytest(as_role(role), tmp_path, "--restore")
        assert refused.returncode == 7, refused.stdout + refused.stderr
        lines = [line for line in refused.stderr.splitlines() if line.startswith("ERROR: ")]
        assert any(
            "may not patch felixconfigurations.projectcalico.org" in line for line in lines
        ), lines
        assert all("manifests/rbac/disruptive.yaml" in line for line in lines[:-1]), lines
        assert "nothing was touched" in lines[-1]
        assert open_entries(kube) == journalled
    done = run_pytest(as_role("disruptive"), tmp_path, "--restore")
    assert done.returncode == 0, done.stdout + done.stderr
    assert WHOLE in done.stdout
    assert re.search(
        r"kube-proxy on node windows-\S+ was restarted, since Services did not work", done.stdout
    )
    assert re.search(
        r"Services work by ClusterIP and by name from windows-\S+, windows-", done.stdout
    ), done.stdout
    assert left(kube, before) == []


def kill_in_the_middle(kubeconfig: Path, kube: Kube, folder: Path) -> None:
    """A run that is killed, all its processes at once, when one Windows node has had the documented procedure and the
    other is cordoned for it."""
    chosen = ("--claim", "VXLAN-10", "-n", "2")
    with (folder / "killed.log").open("wb") as log:
        run = subprocess.Popen(
            command(kubeconfig, folder, *CHANGING, *chosen), cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL,
            stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + CHANGED_WITHIN
        while sum("unschedulable" in entry for entry in open_entries(kube)) < 2:
            said = (folder / "killed.log").read_text(errors="replace")
            assert run.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.1)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def open_entries(kube: Kube) -> list[str]:
    """Return the journal's open entries."""
    return [
        entry.label for journal in journals(kube) for entry in entries_of(journal) if entry.open
    ]
