# SPDX-License-Identifier: Apache-2.0
"""The profiles of other kinds of cluster: their platform, builds and kube-proxy, as users find
them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.lab.lab_process import RunningLab, running_lab

pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not on the PATH"
)

PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: server, namespace: default, labels: {app: server}}
spec:
  nodeName: SERVER
  containers: [{name: main, image: "registry.k8s.io/e2e-test-images/agnhost:2.53", args: [netexec]}]
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: default}
spec:
  nodeName: CLIENT
  containers:
  - {name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019",
     command: [powershell, -Command, Start-Sleep 36000]}
---
apiVersion: v1
kind: Service
metadata: {name: server, namespace: default}
spec: {selector: {app: server}, ports: [{port: 80, targetPort: 8080}]}
"""


def objects(lab: RunningLab, *what: str) -> list[Any]:
    found = json.loads(lab.kubectl("get", *what, "-o", "json").stdout)
    return list(found["items"]) if "items" in found else [found]


def windows_proxy(lab: RunningLab) -> str:
    daemonset = objects(lab, "daemonset", "kube-proxy-windows", "-n", "kube-system")[0]
    container = daemonset["spec"]["template"]["spec"]["containers"][0]
    return " ".join([*container["command"], *container["args"]])


def sources_seen(lab: RunningLab, client: str, server: str) -> tuple[str, str]:
    """Return the sources that a server sees when a Windows pod connects by ClusterIP, and the
    address that the node's block reserves for this."""
    lab.kubectl("apply", "-f", "-", stdin=PODS.replace("SERVER", server).replace("CLIENT", client))
    lab.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=30s")
    address = objects(lab, "service", "server")[0]["spec"]["clusterIP"]
    ask = (
        f"(Invoke-WebRequest -Uri http://{address}/clientip -UseBasicParsing -TimeoutSec 5).Content"
    )
    asked = ("exec", "client", "--", "powershell", "-Command", ask)
    for _ in range(2):  # on a busy machine the node may not know the Service's backend yet
        if not lab.kubectl(*asked, check=False).returncode:
            break
    seen = lab.kubectl(*asked).stdout.strip().rpartition(":")[0]
    tunnel = objects(lab, "node", client)[0]["metadata"]["annotations"][
        "projectcalico.org/IPv4VXLANTunnelAddr"
    ]
    start, _, last = tunnel.rpartition(".")
    return seen, f"{start}.{int(last) + 1}"


def test_an_old_1809_has_no_dsr_and_rewrites(tmp_path: Path) -> None:
    with running_lab(tmp_path, "--profile", "vxlan-1809") as lab:
        windows = objects(lab, "nodes", "-l", "kubernetes.io/os=windows")
        assert {node["status"]["nodeInfo"]["kernelVersion"] for node in windows} == {
            "10.0.17763.1397"
        }
        assert "dsr" not in windows_proxy(lab).lower()
        config = objects(lab, "configmap", "kube-proxy", "-n", "kube-system")[0]["data"][
            "config.conf"
        ]
        assert "enableDSR: false" in config
        seen, source_vip = sources_seen(lab, "windows-1809-1", "linux-1")
        assert seen == source_vip


def test_eks_leaves_its_marks_and_rewrites(tmp_path: Path) -> None:
    with running_lab(tmp_path, "--profile", "eks-no-dsr") as lab:
        nodes = objects(lab, "nodes")
        for node in nodes:
            assert node["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] in {"linux", "windows"}
            assert node["spec"]["providerID"] == f"aws:///us-west-2a/i-{node['metadata']['name']}"
            assert not [label for label in node["metadata"]["labels"] if "control-plane" in label]
        assert objects(lab, "configmap", "aws-auth", "-n", "kube-system")
        kept = {"kubeadm-config"} & {
            obj["metadata"]["name"] for obj in objects(lab, "configmaps", "-n", "kube-system")
        }
        assert not kept
        dns = objects(lab, "service", "kube-dns", "-n", "kube-system")[0]
        assert dns["metadata"]["labels"]["eks.amazonaws.com/component"] == "kube-dns"
        pods = {pod["metadata"]["name"] for pod in objects(lab, "pods", "-n", "kube-system")}
        assert not [
            name for name in pods if name.startswith(("kube-apiserver", "etcd", "kube-scheduler"))
        ]
        names = {
            daemon["metadata"]["name"] for daemon in objects(lab, "daemonsets", "-n", "kube-system")
        }
        assert "kube-proxy" in names
        assert "kube-proxy-windows" not in names  # the image of the node starts it as a service
        information = objects(lab, "clusterinformations.crd.projectcalico.org", "default")[0]
        assert information["spec"]["calicoVersion"] == "v3.19.4"
        seen, source_vip = sources_seen(lab, "windows-1", "linux-1")
        assert seen == source_vip


def test_the_default_keeps_the_source_and_kube_proxy_says_why(tmp_path: Path) -> None:
    with running_lab(tmp_path) as lab:
        assert "--enable-dsr=true" in windows_proxy(lab)
        seen, _ = sources_seen(lab, "windows-2019", "linux-1")
        assert seen == objects(lab, "pod", "client")[0]["status"]["podIP"]
