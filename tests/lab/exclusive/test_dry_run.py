# SPDX-License-Identifier: Apache-2.0
"""A dry run of the suite prints every change that it would make on a cluster, and makes none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.kube.access import from_kubeconfig
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.guard import GuardRefused
from conformance.kube.ownership import Ownership
from tests.lab.lab_process import RunningLab, running_lab

ROOT = Path(__file__).parents[3]
KINDS = "namespaces,nodes,pods,deployments,daemonsets,configmaps,services,networkpolicies,leases,felixconfigurations"
STORY = (
    "dry run: patch FelixConfiguration default (projectcalico.org/v3): gives every node VNI 4097",
    ": cordon",
    "dry run: remove HNS network Calico by a command on node ",
    "dry run: delete Pod calico-system/calico-node-windows-",
    ": uncordons node ",
)

pytestmark = [pytest.mark.xdist_group("dry-run"), pytest.mark.whole_run]


def content(lab: RunningLab) -> list[str]:
    """Return the cluster's objects, without heartbeats."""
    names = "{range .items[*]}{.kind} {.metadata.namespace} {.metadata.name} {.metadata.generation}{'\\n'}{end}"
    return lab.kubectl("get", KINDS, "-A", "-o", f"jsonpath={names}").stdout.splitlines()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(tmp_path_factory.mktemp("lab")) as one:
        yield one


def test_nothing_is_changed_and_every_change_is_told(lab: RunningLab, tmp_path: Path) -> None:
    before = content(lab)
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "KUBE"))
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--dry-run",
        "-n",
        "4",
        "--allow-cluster-disruptive",
    ]
    command += [
        f"--kubeconfig={lab.kubeconfig}",
        f"--report-dir={tmp_path / 'reports'}",
        "suites/vxlan",
        "suites/policy",
        "suites/demo/test_web_server.py",
    ]
    done = subprocess.run(
        command, cwd=ROOT, env=kept, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert content(lab) == before
    story = done.stdout.partition("test_the_documented_procedure_gives_windows_the_new_vni")[2]
    places = [story.find(words) for words in STORY]
    assert -1 not in places, (places, story)
    assert places == sorted(places)
    assert "dry run: apply NetworkPolicy calico-demo-" in done.stdout
    assert "changes would be made up to this point; nothing was changed" in done.stdout


def test_the_door_refuses_all_but_reading(lab: RunningLab) -> None:
    door = Kube(from_kubeconfig(lab.kubeconfig), read_only=True)
    door.objects("v1", "Node")
    with pytest.raises(GuardRefused, match="dry run: refused to POST /api/v1/namespaces"):
        Changes(door, Ownership("x")).namespace("calico-demo-x-main", why="a test")
    with pytest.raises(GuardRefused, match="dry run: refused to run a command in a/b"):
        door.changes_something("run a command in a/b")
    door.close()
