# SPDX-License-Identifier: Apache-2.0
"""The VNI of a Windows node, from outside: delivered by an operator, kept by HNS, changed by the
documented procedure.

Only kubectl touches the lab: the API, exec into pods and HostProcess pods, and eviction by
``kubectl drain``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from tests.lab.lab_process import RunningLab, running_lab, until

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
    pytest.mark.xdist_group("vni-story"),
]

AGNHOST = "registry.k8s.io/e2e-test-images/agnhost:2.53"
BASE_IMAGE = "mcr.microsoft.com/oss/kubernetes/windows-host-process-containers-base-image:v1.0.0"
WINDOWS = {"windows-2022": ("w1", "w1b"), "windows-2019": ("w2",)}
LINUX = {"linux-1": ("l1",), "linux-2": ("l2",)}
POWERSHELL = ("powershell.exe", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command")
NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata: {name: hosts, labels: {pod-security.kubernetes.io/enforce: privileged}}
---
"""


def server(name: str, node: str) -> str:
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 0
  containers: [{{name: main, image: "{AGNHOST}", args: [netexec, --http-port=8080]}}]
---
"""


def host_process(node: str) -> str:
    return f"""\
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: {node}, namespace: hosts}}
spec:
  selector: {{matchLabels: {{host: {node}}}}}
  template:
    metadata: {{labels: {{host: {node}}}}}
    spec:
      os: {{name: windows}}
      nodeSelector: {{kubernetes.io/os: windows, kubernetes.io/hostname: {node}}}
      hostNetwork: true
      securityContext: {{windowsOptions: {{hostProcess: true, runAsUserName: 'NT AUTHORITY\\SYSTEM'}}}}
      tolerations: [{{operator: Exists}}]
      terminationGracePeriodSeconds: 1
      containers:
      - name: host
        image: {BASE_IMAGE}
        command: ['C:\\Windows\\System32\\ping.exe', -t, 127.0.0.1]
---
"""


class Story:
    """A lab with servers on four nodes and a HostProcess pod on each Windows node."""

    def __init__(self, lab: RunningLab) -> None:
        self.kubectl = lab.kubectl
        self.apply_servers(WINDOWS | LINUX)
        self.kubectl("apply", "-f", "-", stdin=NAMESPACE + "".join(map(host_process, WINDOWS)))
        for node in WINDOWS:
            self.kubectl("rollout", "status", "-n", "hosts", f"daemonset/{node}", "--timeout=30s")

    def apply_servers(self, nodes: dict[str, tuple[str, ...]]) -> None:
        names = [(name, node) for node, names in nodes.items() for name in names]
        self.kubectl("apply", "-f", "-", stdin="".join(server(*name) for name in names))
        pods = [f"pod/{name}" for name, _ in names]
        self.kubectl("wait", "--for=condition=Ready", *pods, "--timeout=30s")

    def reaches(self, source: str, target: str) -> bool:
        address = self.kubectl("get", "pod", target, "-o", "jsonpath={.status.podIP}").stdout
        agnhost = "agnhost.exe" if source.startswith("w") else "/agnhost"
        command = (agnhost, "connect", f"{address}:8080", "--timeout=1s")
        done = self.kubectl("exec", source, "--", *command, check=False)
        assert done.returncode == 0 or "TIMEOUT" in done.stdout + done.stderr, (
            done.stdout + done.stderr
        )
        return done.returncode == 0

    def powershell(self, node: str, script: str) -> str:
        return self.kubectl(
            "exec", "-n", "hosts", f"daemonset/{node}", "--", *POWERSHELL, script
        ).stdout

    def vsid(self, node: str) -> int:
        networks = json.loads(
            self.powershell(node, "Get-HnsNetwork | ConvertTo-Json -Depth 10 -Compress")
        )
        calico = next(network for network in networks if network["Name"] == "Calico")
        return int(calico["Subnets"][0]["Policies"][0]["VSID"])

    def cni_vni(
        self,
        node: str,
        script: str = r"Get-Content -Raw -Path 'C:\etc\cni\net.d\10-calico.conflist'",
    ) -> int:
        return int(json.loads(self.powershell(node, script))["plugins"][0]["vxlan_vni"])

    def environment_vni(self, node: str) -> str:
        pod = self.calico_pod(node)
        said = self.kubectl("get", "-n", "calico-system", pod, "-o", "json", check=False)
        if said.returncode:
            return ""  # replaced meanwhile
        env = {
            item["name"]: item.get("value")
            for item in json.loads(said.stdout)["spec"]["containers"][0]["env"]
        }
        return str(env["VXLAN_VNI"])

    def calico_pod(self, node: str) -> str:
        chosen = (
            "-l",
            "k8s-app=calico-node-windows",
            f"--field-selector=spec.nodeName={node}",
            "-o",
            "name",
        )
        return self.kubectl("get", "pod", "-n", "calico-system", *chosen).stdout.strip()

    def deliver(self, vni: int) -> None:
        patch = json.dumps({"spec": {"vxlanVNI": vni}})
        self.kubectl(
            "patch", "felixconfigurations.projectcalico.org", "default", "--type=merge", "-p", patch
        )
        until(lambda: all(self.environment_vni(node) == str(vni) for node in WINDOWS))
        self.kubectl(
            "rollout",
            "status",
            "-n",
            "calico-system",
            "daemonset/calico-node-windows",
            "--timeout=30s",
        )

    def procedure(self, node: str) -> None:
        """Drain, remove the HNS network, restart calico-node-windows, uncordon."""
        self.kubectl(
            "drain",
            node,
            "--ignore-daemonsets",
            "--force",
            "--delete-emptydir-data",
            "--timeout=30s",
        )
        script = "Get-HnsNetwork | Where-Object { $_.Name -eq 'Calico' } | Remove-HnsNetwork"
        command = ("exec", "-n", "hosts", f"daemonset/{node}", "--", *POWERSHELL, script)
        cut = self.kubectl(*command, check=False)
        assert cut.returncode, "the node's own exec streams break with its network"
        old = self.calico_pod(node)
        self.kubectl("delete", "-n", "calico-system", old)
        until(lambda: self.calico_pod(node) not in {"", old})
        wait = ("wait", "-n", "calico-system", "--for=condition=Ready", "--timeout=30s")
        self.kubectl(*wait, self.calico_pod(node))
        self.kubectl("uncordon", node)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with running_lab(tmp_path_factory.mktemp("vni")) as running:
        yield Story(running)


def test_a_new_vni_reaches_windows_and_is_taken_only_after_the_procedure(story: Story) -> None:
    assert [(story.vsid(node), story.cni_vni(node)) for node in WINDOWS] == [(4096, 4096)] * 2
    assert story.reaches("l1", "w1")

    story.deliver(4097)
    until(lambda: not story.reaches("l1", "w1"))
    assert [(story.vsid(node), story.cni_vni(node)) for node in WINDOWS] == [(4096, 4097)] * 2
    assert not story.reaches("w1", "l1")
    for source, target in (("l1", "l2"), ("w1", "w1b"), ("w1", "w2")):
        assert story.reaches(source, target), f"{source} to {target}"
    story.apply_servers({"windows-2019": ("w3",)})
    assert story.vsid("windows-2019") == 4096, "a pod that is networked later changes nothing"

    for node, pods in WINDOWS.items():
        story.procedure(node)
        assert story.vsid(node) == 4097
        story.apply_servers({node: pods})
    for source, target in (
        ("l1", "w1"),
        ("w1", "l2"),
        ("w2", "l1"),
        ("l2", "w2"),
        ("w1", "w2"),
        ("w1", "w1b"),
    ):
        assert story.reaches(source, target), f"{source} to {target}"


def test_felix_is_restarted_by_ending_its_process(story: Story) -> None:
    read = "Get-CimInstance Win32_Process -Filter \"name='calico-node.exe'\" | Select-Object ProcessId, CommandLine"
    before = json.loads(story.powershell("windows-2022", f"{read} | ConvertTo-Json -Compress"))
    assert before["CommandLine"] == "calico-node.exe -felix"
    story.powershell("windows-2022", f"Stop-Process -Id {before['ProcessId']} -Force")
    after = json.loads(story.powershell("windows-2022", f"{read} | ConvertTo-Json -Compress"))
    assert after["ProcessId"] != before["ProcessId"]


def test_the_felix_container_answers_too(story: Story) -> None:
    command = (
        "exec",
        "-n",
        "calico-system",
        story.calico_pod("windows-2022"),
        "-c",
        "felix",
        "--",
        *POWERSHELL,
    )
    found = story.kubectl(*command, "Get-HnsEndpoint | ConvertTo-Json -Depth 10 -Compress").stdout
    addresses = {load["Name"]: load["IPAddress"] for load in json.loads(found)}
    own = story.kubectl("get", "pod", "w1", "-o", "jsonpath={.status.podIP}").stdout
    assert own in addresses.values()
    assert addresses["Calico_ep"].endswith(".2")


def test_the_operator_undoes_what_others_change(story: Story) -> None:
    daemon_set = ("-n", "calico-system", "daemonset/calico-node-windows")

    def vnis() -> set[str]:
        found = json.loads(story.kubectl("get", *daemon_set, "-o", "json").stdout)
        containers = found["spec"]["template"]["spec"]["containers"]
        return {
            env["value"]
            for container in containers
            for env in container["env"]
            if env["name"] == "VXLAN_VNI"
        }

    laid = vnis()
    story.kubectl("set", "env", *daemon_set, "VXLAN_VNI=5000")
    until(lambda: vnis() == laid)
    story.kubectl("delete", "-n", "calico-system", "configmap", "cni-config-windows")
    [vni] = laid
    until(
        lambda: vni in story.kubectl("get", "-n", "calico-system", "configmap", "-o", "yaml").stdout
    )
    story.kubectl("rollout", "restart", *daemon_set)
    story.kubectl("rollout", "status", *daemon_set, "--timeout=30s")


def test_hostprocess_pods_need_a_privileged_namespace(story: Story) -> None:
    refused = story.kubectl(
        "label", "namespace", "default", "pod-security.kubernetes.io/enforce=baseline"
    )
    assert refused.returncode == 0
    pod = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: host, namespace: default}}
spec:
  os: {{name: windows}}
  hostNetwork: true
  securityContext: {{windowsOptions: {{hostProcess: true, runAsUserName: 'NT AUTHORITY\\SYSTEM'}}}}
  containers: [{{name: host, image: {BASE_IMAGE}}}]
"""
    said = story.kubectl("apply", "-f", "-", stdin=pod, check=False)
    story.kubectl("label", "namespace", "default", "pod-security.kubernetes.io/enforce-")
    assert said.returncode
    assert 'violates PodSecurity "baseline:latest"' in said.stderr
    assert "hostProcess (pod must not set" in said.stderr
