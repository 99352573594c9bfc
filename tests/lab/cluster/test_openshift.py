# SPDX-License-Identifier: Apache-2.0
"""OpenShift is refused before anything is touched, by every command with which a first run may
begin."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from tests.lab.lab_process import RunningLab, running_lab
from tests.lab.rbac.conftest import run_pytest
from tests.reliability import snapshot

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
    pytest.mark.xdist_group("openshift"),
]


@pytest.fixture(scope="module")
def openshift(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(
        tmp_path_factory.mktemp("lab"), "--set", "kubernetes.provider=OpenShift"
    ) as lab:
        yield lab


@pytest.mark.parametrize("command", ["--plan", "--smoke", "--allow-cluster-disruptive"])
def test_openshift_is_refused_with_exit_code_7_and_left_alone(
    openshift: RunningLab, tmp_path: Path, command: str
) -> None:
    kube = Kube(from_kubeconfig(openshift.kubeconfig))
    try:
        before = snapshot.take(kube)
        done = run_pytest(openshift.kubeconfig, tmp_path, command)
        assert done.returncode == 7, done.stdout + done.stderr
        assert (
            "OpenShift is not supported: its SecurityContextConstraints refuse"
            in done.stdout + done.stderr
        )
        assert snapshot.differences(before, snapshot.take(kube)) == []
    finally:
        kube.close()
