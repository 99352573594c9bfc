# SPDX-License-Identifier: Apache-2.0
"""`calico-conformance calibrate` under its roles, with other load, on a lab that faults make
slow and give other error texts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from conformance.kube.client import Kube
from conformance.settings import load_timings
from tests.lab.lab_process import RunningLab
from tests.lab.rbac.conftest import ROOT, AsRole, environment
from tests.lab.rbac.test_field_run import left
from tests.reliability.snapshot import Snapshot

pytestmark = pytest.mark.xdist_group("calibrate")

LAB = ("--profile", "small", "--set", "timing.exec_cost_ms=300")
LATE = 2.5
"""s.  By which policy is late at Windows pods."""
SCHEMA = json.loads((ROOT / "docs" / "schema" / "calibration.schema.json").read_text("utf-8"))
IDLE = "policy-effect", "powershell-start", "syn-again", "service-effect", "mtu", "http-no-host"

OF_WINDOWS = (
    *(f"{what}/{part}" for what in ("powershell-start", "agent-start")
      for part in ("cold", "warm", "two", "three")),
    *(f"http-{name}" for name in ("plain", "no-host", "cut-off", "too-long", "after-reset")),
    *(f"{kind}/{system}" for kind in ("tcp-closed", "udp-closed", "udp-open", "tcp-denied", "mtu")
      for system in ("linux", "windows") if (kind, system) != ("mtu", "windows")),
    "time-out/windows", "time-out-seconds/windows",
    "attempts-per-second", "attempt-late/5", "dns-effect", "policy-removed/udp", "pod-start",
)  # fmt: skip
"""What must be there of Windows, of a lab with one Windows node."""


def calibrate(kubeconfig: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "conformance.cli", "calibrate", f"--kubeconfig={kubeconfig}",
         f"--to={folder / 'calibration.json'}", f"--report-dir={folder / 'reports'}", *arguments],
        env=environment(), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=590, check=False,
    )  # fmt: skip


@contextmanager
def two_busy_loops() -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextmanager
def faults(lab: RunningLab, *given: tuple[str, ...]) -> Iterator[None]:
    for words in given:
        done = lab.hybridlab("faults", "--kubeconfig", str(lab.kubeconfig), "inject", *words)
        assert done.returncode == 0, done.stderr
    try:
        yield
    finally:
        lab.hybridlab("faults", "--kubeconfig", str(lab.kubeconfig), "heal")


def test_the_plan_changes_nothing_under_the_role_that_only_reads(
    as_role: AsRole, kube: Kube, before: Snapshot, tmp_path: Path
) -> None:
    done = calibrate(as_role("read-only"), tmp_path, "--plan")
    assert done.returncode == 0, done.stderr
    assert "15 changes of policy and their removals" in done.stdout
    assert "node windows: windows 20348.2762" in done.stdout
    assert left(kube, before) == []
    assert not (tmp_path / "calibration.json").exists()
    assert not [*(tmp_path / "reports").glob("2*")]


def test_a_lab_is_measured_as_it_is_by_fault_beside_load_and_is_left_as_it_was(
    lab: RunningLab, as_role: AsRole, kube: Kube, before: Snapshot, tmp_path: Path
) -> None:
    other = ("words=ConnectionReset/10054", "instead=WSAECONNRESET/10054")
    with (
        two_busy_loops(),
        faults(
            lab,
            ("policy-late", "node=windows", f"seconds={LATE}"),
            ("exec-other-words", "node=windows", *other),
        ),
    ):
        done = calibrate(as_role("standard"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert left(kube, before) == []
    target = tmp_path / "calibration.json"
    found: dict[str, Any] = json.loads(target.read_text("ascii"))
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert target.stat().st_size < 1_000_000
    assert found["not_measured"] == []

    values = {(one["id"], one["system"]): one["values"] for one in found["measurements"]}
    changes = values["policy-effect/tcp", "windows"]
    assert len(changes) == 15
    assert len(values["policy-removed/udp", "linux"]) == 15
    assert min(changes) > LATE - 0.3, "policy is late at Windows"
    assert min(values["policy-effect/tcp", "linux"]) < LATE / 2, "and not at Linux"
    assert values["reset/linux", "windows"] == ["RESET WSAECONNRESET/10054"]
    assert all(seconds > 0.3 for seconds in values["exec/warm", "windows"])
    assert values["time-out/windows", "windows"] == ["TIMED_OUT no answer to the first packet"], (
        "by the agent: the lab's Windows pods send SYNs for longer than that"
    )
    assert all(seconds > 20 for seconds in values["time-out-seconds/windows", "windows"])
    assert {name.partition("/")[0] for name, _ in values} >= set(IDLE)
    assert {name for name, system in values if system == "windows"} >= set(OF_WINDOWS)

    states = {one["id"]: one["state"] for one in found["assumptions"]}
    assert (found["evidence"], states["WIN-RESET"]) == ("lab", "different")
    assert "confirmed" not in states.values()
    assert "These nodes are emulated: this calibration confirms nothing" in done.stdout
    assert "reset-words: assumed equal RESET ConnectionReset/10054" in done.stdout, "of the lab"
    text = target.read_text("ascii")
    assert "10.96." not in text
    assert "192.168." not in text
    printed = {one["program"] for one in found["programs"] if one["output"]}
    assert {"hns.ps1", "bgp.ps1", "registry.ps1", "CNI files"} <= printed

    packaged, measured = load_timings(), load_timings(target)
    assert measured.windows.policy_effect == 20.0, "three times the late effect, at least 20 s"
    assert measured.windows.tcp_give_up == packaged.windows.tcp_give_up
