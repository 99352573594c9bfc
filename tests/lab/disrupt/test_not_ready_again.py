# SPDX-License-Identifier: Apache-2.0
"""If a disruptive test leaves something that is not ready, the next one does not begin, and the
report says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.lab_process import RunningLab, running_lab

pytestmark = [pytest.mark.xdist_group("not-ready-again"), pytest.mark.whole_run]
ROOT = Path(__file__).parents[3]
WITHIN = 180.0
"""s.  Only a run that hangs takes so long."""
SUITE = """
import json, os, subprocess, pathlib, pytest
from conformance.journal import Journalled
from conformance.marks import verifies

@pytest.mark.parametrize("number", range(2))
@verifies("VXLAN-9", part="{number}", active=True)
def test_disrupts(number: int, journalled: Journalled) -> None:
    pathlib.Path(f"began-{number}").touch()
    for command in json.loads(os.environ["DISRUPTION"]):
        subprocess.run(command, check=True)
"""
TIMINGS = "windows: {felix_restart: 3 s, pod_ready: 3 s, poll_every: 250 ms}\n"
IDLE = ("faults", "inject", "kubelet-idle")
DELETE = ("delete", "pods", "-n", "kube-system", "--wait=false")
UNKNOWN = (
    "patch",
    "node",
    "windows",
    "--subresource=status",
    '-p={"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}',
)
"""What the control plane writes 40 s after a node's last sign of life."""
CASES = {
    "daemonset": (
        [("lab", *IDLE, "node=linux"), ("kubectl", *DELETE, "-l", "k8s-app=kube-proxy")],
        "DaemonSet kube-system/kube-proxy on node linux is not Ready: pod kube-system/kube-proxy",
    ),
    "deployment": (
        [("lab", *IDLE, "node=all"), ("kubectl", *DELETE, "-l", "k8s-app=kube-dns")],
        "Deployment kube-system/coredns is not Ready: pod kube-system/coredns-",
    ),
    "node": (
        [("lab", "faults", "inject", "node-dead", "node=windows"), ("kubectl", *UNKNOWN)],
        "node windows is not Ready: Ready Unknown",
    ),
}
"""What the first test does to the cluster, and what then differs."""


def commands(lab: RunningLab, steps: list[tuple[str, ...]]) -> list[list[str]]:
    config = ["--kubeconfig", str(lab.kubeconfig)]
    hybridlab = [sys.executable, "-m", "hybridlab"]
    return [
        ["kubectl", *config, *words]
        if tool == "kubectl"
        else [*hybridlab, words[0], *config, *words[1:]]
        for tool, *words in steps
    ]


@pytest.mark.parametrize("case", CASES)
def test_the_next_disruptive_test_does_not_begin(tmp_path: Path, case: str) -> None:
    steps, differs = CASES[case]
    project = tmp_path / "project"
    (project / "suites").mkdir(parents=True)
    (project / "suites" / "test_it.py").write_text(SUITE)
    (project / "conftest.py").write_text('pytest_plugins = ["conformance.plugin"]\n')
    (project / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntestpaths = ["suites"]\n')
    (project / "timings.yaml").write_text(TIMINGS)
    with running_lab(tmp_path, "--profile", "small") as lab:
        environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PYTEST_", "KUBE"))
        } | {"PYTHONPATH": str(ROOT / "lib"), "DISRUPTION": json.dumps(commands(lab, steps))}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-ra"]
        command += [f"--kubeconfig={lab.kubeconfig}", "--allow-cluster-disruptive"]
        command += ["--timings=timings.yaml", f"--report-dir={tmp_path / 'reports'}"]
        done = subprocess.run(
            command,
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )
    assert sorted(path.name for path in project.glob("began-*")) == ["began-0"], done.stdout
    assert done.returncode == 6, done.stdout + done.stderr
    report = json.loads((tmp_path / "reports" / "latest" / "conformance.json").read_text())
    said = json.dumps(report)
    assert "that were Ready before a disruptive test are not Ready again within" in said
    assert differs in said
    assert "may differ from its state before" in said
