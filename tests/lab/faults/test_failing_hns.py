# SPDX-License-Identifier: Apache-2.0
"""An HNS that gives no answer: its cmdlets fail like those of a real node, in all three ways,
until it is healed."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.lab_process import RunningLab, running_lab

pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not on the PATH"
)

HOST = """\
apiVersion: v1
kind: Pod
metadata: {name: host, namespace: kube-system}
spec:
  nodeName: windows
  hostNetwork: true
  securityContext: {windowsOptions: {hostProcess: true, runAsUserName: 'NT AUTHORITY\\SYSTEM'}}
  containers: [{name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2022", command: [ping, -t, localhost]}]
"""
ASKED = "Get-HnsNetwork | ConvertTo-Json -Depth 5"
STOP = "$ErrorActionPreference = 'Stop'; "


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(Path(tmp_path_factory.mktemp("lab")), "--profile", "small") as found:
        found.kubectl("apply", "-f", "-", stdin=HOST)
        found.kubectl(
            "wait", "-n", "kube-system", "--for=condition=Ready", "pod/host", "--timeout=30s"
        )
        yield found


def ask(lab: RunningLab, script: str) -> subprocess.CompletedProcess[str]:
    return lab.kubectl(
        "exec", "-n", "kube-system", "host", "--", "powershell", "-Command", script, check=False
    )


def faults(lab: RunningLab, *words: str) -> None:
    done = lab.hybridlab("faults", "--kubeconfig", str(lab.kubeconfig), *words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("answer", "printed", "has_error"),
    [("error", "null", True), ("silent", '""', False), ("garbled", '""', True)],
)
def test_a_failing_hns_ends_with_0_unless_its_errors_stop_the_script(
    lab: RunningLab, answer: str, printed: str, has_error: bool
) -> None:
    faults(lab, "inject", "hns-fails", "node=windows", f"answer={answer}")
    try:
        said = ask(lab, ASKED)
        assert (said.returncode, said.stdout.strip(), bool(said.stderr.strip())) == (
            0,
            printed,
            has_error,
        )
        stopped = ask(lab, STOP + ASKED)
        assert stopped.returncode == (1 if has_error else 0)
        assert stopped.stdout.strip() == ("" if has_error else printed)
        removed = ask(lab, "Get-HnsNetwork | ? Name -eq Calico | Remove-HnsNetwork; 'after'")
        assert (removed.returncode, removed.stdout.strip()) == (0, "after")
    finally:
        faults(lab, "heal")
    assert "Calico" in {network["Name"] for network in json.loads(ask(lab, ASKED).stdout)}
