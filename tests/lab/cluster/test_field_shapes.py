# SPDX-License-Identifier: Apache-2.0
"""Where other installations differ: slow pulls, the CNI configuration's place, what Calico's own API server refused."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from tests.lab.lab_process import RunningLab, running_lab

pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not on the PATH"
)

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: slow, namespace: default}
spec:
  nodeName: windows
  containers: [{name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2022", command: [ping, -t, localhost]}]
"""
HOST = """\
apiVersion: v1
kind: Pod
metadata: {name: host, namespace: kube-system}
spec:
  nodeName: windows
  hostNetwork: true
  securityContext: {windowsOptions: {hostProcess: true, runAsUserName: 'NT AUTHORITY\\SYSTEM'}}
  containers:
  - {name: host, image: "mcr.microsoft.com/oss/kubernetes/windows-host-process-containers-base-image:v1.0.0",
     command: [powershell, -Command, Start-Sleep 36000]}
"""
POLICY = """\
apiVersion: projectcalico.org/v3
kind: NetworkPolicy
metadata: {name: allow, namespace: default}
spec: {selector: all(), ORDER types: [Ingress], ingress: [{action: Allow}]}
"""
SETS = """\
apiVersion: projectcalico.org/v3
kind: GlobalNetworkSet
metadata: {name: offices}
spec: {nets: [198.51.100.0/24]}
"""


def reasons(lab: RunningLab) -> list[str]:
    found = json.loads(lab.kubectl("get", "events", "-o", "json").stdout)["items"]
    return [item["reason"] for item in found if item["involvedObject"]["name"] == "slow"]


def test_a_slow_pull_begins_with_an_event_and_ends_with_another(tmp_path: Path) -> None:
    with running_lab(tmp_path, "--profile", "small", "--set", "timing.image_pull_ms=2500") as lab:
        begin = time.monotonic()
        lab.kubectl("apply", "-f", "-", stdin=POD)
        while "Pulling" not in reasons(lab):
            assert time.monotonic() < begin + 2, "the pull begins at once"
        assert "Pulled" not in reasons(lab)
        (container,) = json.loads(lab.kubectl("get", "pod", "slow", "-o", "json").stdout)["status"][
            "containerStatuses"
        ]
        assert container["state"] == {"waiting": {"reason": "ContainerCreating"}}
        lab.kubectl("wait", "--for=condition=Ready", "pod/slow", "--timeout=30s")
        assert time.monotonic() - begin >= 2.5
        assert "Pulled" in reasons(lab)


@pytest.mark.parametrize(
    ("install", "directory", "place"),
    [
        ("operator", "/Program Files/Amazon/EKS/cni/config",
         r"C:\Program Files\Amazon\EKS\cni\config\10-calico.conflist"),
        ("manifest", "/var/lib/rancher/rke2/agent/etc/cni/net.d",
         r"C:\var\lib\rancher\rke2\agent\etc\cni\net.d\10-calico.conf"),
        ("manifest", "/k/cni/config", r"C:\k\cni\config\10-calico.conf"),
    ],
)  # fmt: skip
def test_the_cni_configuration_is_where_the_installation_has_it(
    tmp_path: Path, install: str, directory: str, place: str
) -> None:
    settings = ("windows.cni_config_dir=" + directory, "calico.install=" + install)
    with running_lab(
        tmp_path,
        "--profile",
        "small",
        *(word for setting in settings for word in ("--set", setting)),
    ) as lab:
        lab.kubectl("apply", "-f", "-", stdin=HOST)
        lab.kubectl(
            "wait", "-n", "kube-system", "--for=condition=Ready", "pod/host", "--timeout=30s"
        )

        def read(path: str) -> str:
            script = f"Get-Content -Raw -Path '{path}'"
            done = lab.kubectl(
                "exec",
                "-n",
                "kube-system",
                "host",
                "--",
                "powershell",
                "-Command",
                script,
                check=False,
            )
            return done.stdout.strip()

        assert json.loads(read(place))["name"] == "Calico"
        assert read(r"C:\etc\cni\net.d\*.conf*") == "", "it is nowhere else"
        if install == "operator":
            spec = json.loads(lab.kubectl("get", "installation", "default", "-o", "json").stdout)[
                "spec"
            ]
            assert spec["windowsNodes"]["cniConfigDir"] == directory


def apply(lab: RunningLab, manifest: str) -> tuple[int, str]:
    done = lab.kubectl("apply", "--server-side", "-f", "-", stdin=manifest, check=False)
    return done.returncode, done.stderr.strip()


def test_calico_v3_32_0_applies_no_new_policy_and_creates_it(tmp_path: Path) -> None:
    with running_lab(tmp_path, "--profile", "small", "--set", "calico.version=v3.32.0") as lab:
        words = 'Error from server (NotFound): networkpolicies.projectcalico.org "allow" not found'
        assert apply(lab, POLICY.replace("ORDER", "")) == (1, words)
        lab.kubectl("create", "-f", "-", stdin=POLICY.replace("ORDER", ""))
        assert apply(lab, POLICY.replace("ORDER", "order: 5,")) == (0, "")
        assert apply(lab, SETS) == (0, ""), "only policies are read before they are updated"


def test_calico_v3_32_1_applies_new_policies(tmp_path: Path) -> None:
    with running_lab(tmp_path, "--profile", "small", "--set", "calico.version=v3.32.1") as lab:
        assert apply(lab, POLICY.replace("ORDER", "")) == (0, "")


def test_calico_up_to_v3_21_has_no_serializer_for_yaml(tmp_path: Path) -> None:
    with running_lab(tmp_path, "--profile", "small", "--set", "calico.version=v3.21.6") as lab:
        words = "Error from server: no serializer defined for application/yaml"
        assert apply(lab, POLICY.replace("ORDER", "")) == (1, words)
        assert lab.kubectl("apply", "-f", "-", stdin=POLICY.replace("ORDER", "")).returncode == 0, (
            "kubectl sends JSON"
        )
