# SPDX-License-Identifier: Apache-2.0
"""calico#4078: without an overlay, a default deny does not keep a Windows node's address out of the
node's own pods.

Felix admits the node's addresses before any policy, and kube-proxy gives other clients the node's
address: by ClusterIP without direct server return if the backend is on the client's own node, and
always by the NodePort of the backend's node.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.lab.cluster.test_source_addresses import POD
from tests.lab.lab_process import RunningLab, running_lab

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
    pytest.mark.xdist_group("source-addresses"),
]

DENY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: default}
spec: {podSelector: {matchLabels: {app: server}}, policyTypes: [Ingress]}
"""
PODS = {
    "server": "windows-2022",
    "same-node": "windows-2022",
    "other-node": "windows-2019",
    "outside": "linux-1",
}
OPEN, CLOSED = True, False


def manifest() -> str:
    return "".join(
        POD.format(
            name=name,
            node=node,
            os=node.partition("-")[0],
            on_host=str(name == "outside").lower(),
            port=8080,
            image=f"mcr.microsoft.com/windows/servercore:ltsc20{node[-2:]}"
            if node != "linux-1"
            else "busybox:1.36",
            command='sleep, "36000"' if node == "linux-1" else "powershell, -c, Start-Sleep 36000",
        )
        for name, node in PODS.items()
    )


def reaches(lab: RunningLab, client: str, url: str) -> bool:
    if client == "outside":
        command = ["wget", "-T", "2", "-qO-", url]
    else:
        script = f"(Invoke-WebRequest -Uri {url} -UseBasicParsing -TimeoutSec 2).StatusCode"
        command = ["powershell", "-c", script]
    said = lab.kubectl("exec", client, "-c", "client", "--", *command, check=False)
    return bool(said.stdout.strip())


@pytest.mark.parametrize("dsr", [False, True], ids=["without direct server return", "with it"])
def test_a_default_deny_and_who_gets_in(tmp_path: Path, *, dsr: bool) -> None:
    with running_lab(
        tmp_path, "--profile", "bgp", "--set", f"kube_proxy.windows_dsr={str(dsr).lower()}"
    ) as lab:
        lab.kubectl("apply", "-f", "-", stdin=manifest())
        lab.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
        pod = json.loads(lab.kubectl("get", "pod", "server", "-o", "json").stdout)["status"]
        service = json.loads(lab.kubectl("get", "service", "server", "-o", "json").stdout)["spec"]
        address, port = f"http://{pod['podIP']}:8080/", service["ports"][0]["nodePort"]
        cluster_ip, node_port = f"http://{service['clusterIP']}/", f"http://{pod['hostIP']}:{port}/"
        ways = [
            ("same-node", address, CLOSED),
            ("other-node", address, CLOSED),
            ("same-node", cluster_ip, CLOSED if dsr else OPEN),
            ("other-node", cluster_ip, CLOSED),
            ("outside", node_port, OPEN),
        ]
        assert [(client, url, reaches(lab, client, url)) for client, url, _ in ways] == [
            (client, url, OPEN) for client, url, _ in ways
        ], "before the policy"
        lab.kubectl("apply", "-f", "-", stdin=DENY)
        assert any(not reaches(lab, "same-node", address) for _ in range(20)), (
            "the policy comes into force"
        )
        assert [(client, url, reaches(lab, client, url)) for client, url, _ in ways] == ways
