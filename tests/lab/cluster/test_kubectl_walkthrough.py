# SPDX-License-Identifier: Apache-2.0
"""A new user's first fifteen minutes with kubectl: the policy demo, step by step."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.lab_process import RunningLab, running_lab

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
NAMESPACE = ("-n", "calico-demo")

pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not on the PATH"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(tmp_path_factory.mktemp("walkthrough"), "--profile", "untainted") as running:
        yield running


@pytest.fixture
def demo(lab: RunningLab) -> Iterator[RunningLab]:
    lab.kubectl("apply", "-f", str(EXAMPLES / "policy-demo-pods.yaml"))
    lab.kubectl(*NAMESPACE, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=30s")
    yield lab
    lab.kubectl("delete", "namespace", "calico-demo", "--wait=true", "--timeout=30s")


def pod_ip(lab: RunningLab, pod: str) -> str:
    return lab.kubectl(*NAMESPACE, "get", "pod", pod, "-o", "jsonpath={.status.podIP}").stdout


def connect(lab: RunningLab, pod: str) -> tuple[int, str]:
    """What the demo does from linux-client."""
    done = lab.kubectl(
        *NAMESPACE,
        "exec",
        "linux-client",
        "--",
        "nc",
        "-vz",
        "-w",
        "3",
        pod_ip(lab, pod),
        "80",
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def fetch(lab: RunningLab, pod: str, seconds: int = 2) -> tuple[int, str]:
    """What the demo does from windows-client."""
    done = lab.kubectl(
        *NAMESPACE, "exec", "windows-client", "--", "powershell", "Invoke-WebRequest", "-Uri",
        f"http://{pod_ip(lab, pod)}", "-UseBasicParsing", "-TimeoutSec", str(seconds), check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_the_policy_demo_isolates_the_windows_server(demo: RunningLab) -> None:
    address = pod_ip(demo, "windows-server")
    assert connect(demo, "windows-server") == (0, f"{address} ({address}:80) open\n")
    code, text = fetch(demo, "linux-server")
    assert (code, "Welcome to nginx!" in text) == (0, True), text
    code, text = fetch(demo, "windows-server")
    assert (code, "<H1>Windows Container Web Server</H1>" in text) == (0, True), text

    demo.kubectl("apply", "-f", str(EXAMPLES / "policy-demo-policy.yaml"))
    code, text = fetch(demo, "windows-server")
    assert (code, "The operation has timed out" in text) == (1, True), text
    assert connect(demo, "windows-server")[0] == 0
    assert fetch(demo, "linux-server")[0] == 0


PUBLIC = """
apiVersion: v1
kind: Service
metadata: {name: win-webserver, labels: {app: win-webserver}}
spec:
  ports: [{port: 80, targetPort: 80}]
  selector: {app: win-webserver}
  type: NodePort
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: win-webserver, labels: {app: win-webserver}}
spec:
  replicas: 2
  selector: {matchLabels: {app: win-webserver}}
  template:
    metadata: {name: win-webserver, labels: {app: win-webserver}}
    spec:
      containers:
        - name: windowswebserver
          image: mcr.microsoft.com/windows/servercore:ltsc2022
          command:
            - powershell.exe
            - -command
            - "<# by the user guide #> ; $$listener = New-Object System.Net.HttpListener ;
              $$listener.Prefixes.Add('http://*:80/') ; $$listener.Start() ; while ($$listener.IsListening) {
              ;$$context = $$listener.GetContext() ;$$response = $$context.Response ;$$content='<H1>served</H1>'
              ;$$buffer = [System.Text.Encoding]::UTF8.GetBytes($$content) ;$$response.ContentLength64 = $$buffer.Length
              ;$$response.OutputStream.Write($$buffer, 0, $$buffer.Length) ;$$response.Close() } ; "
      nodeSelector: {kubernetes.io/os: windows}
"""
"""Shaped as Kubernetes' guide for Windows has it: no toleration, no build, `$$` for a dollar sign."""


def test_a_public_windows_manifest_is_scheduled_and_serves(demo: RunningLab) -> None:
    demo.kubectl(*NAMESPACE, "apply", "-f", "-", stdin=PUBLIC)
    demo.kubectl(*NAMESPACE, "rollout", "status", "deployment/win-webserver", "--timeout=30s")
    where = "jsonpath={.items[*].spec.nodeName}"
    nodes = demo.kubectl(
        *NAMESPACE, "get", "pods", "-l", "app=win-webserver", "-o", where
    ).stdout.split()
    assert sorted(nodes) == ["windows-2022-1", "windows-2022-2"]
    port = demo.kubectl(
        *NAMESPACE, "get", "service", "win-webserver", "-o", "jsonpath={.spec.ports[0].nodePort}"
    ).stdout
    address = "jsonpath={.status.addresses[0].address}"
    node = demo.kubectl("get", "node", "windows-2022-1", "-o", address).stdout
    for url in ("http://win-webserver", f"http://{node}:{port}"):
        done = demo.kubectl(
            *NAMESPACE, "exec", "linux-client", "--", "wget", "-qO-", "-T", "3", url
        )
        assert done.stdout == "<H1>served</H1>"


def test_the_nodes_are_a_hybrid_cluster(lab: RunningLab) -> None:
    wide = lab.kubectl("get", "nodes", "-o", "wide").stdout
    assert len([line for line in wide.splitlines() if " Ready " in line]) == 6, wide
    assert len([line for line in wide.splitlines() if "Windows Server" in line]) == 2, wide


def test_every_system_pod_runs(lab: RunningLab) -> None:
    pods = lab.kubectl("get", "pods", "-A", "--no-headers").stdout.splitlines()
    assert pods
    assert [line for line in pods if "Running" not in line] == []


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["get", "all", "-A"], id="get all"),
        pytest.param(["describe", "node", "windows-2022-1"], id="describe node"),
        pytest.param(["api-resources"], id="api-resources"),
        pytest.param(["auth", "can-i", "create", "pods"], id="auth can-i"),
        pytest.param(["get", "ippools", "-o", "wide"], id="Calico objects"),
        pytest.param(
            ["logs", "-n", "calico-system", "daemonset/calico-node-windows", "-c", "felix"],
            id="logs",
        ),
        pytest.param(["get", "events", "-A"], id="events"),
        pytest.param(["version"], id="version"),
    ],
)
def test_kubectl_understands_the_lab(lab: RunningLab, arguments: list[str]) -> None:
    done = lab.kubectl(*arguments)
    assert done.stdout.strip()
    assert "error" not in done.stderr.lower(), done.stderr


def test_describe_shows_a_pod_with_its_events(demo: RunningLab) -> None:
    text = demo.kubectl(*NAMESPACE, "describe", "pod", "windows-server").stdout
    assert "Successfully assigned calico-demo/windows-server" in text
    assert "Started container web" in text


def test_a_wrong_field_is_refused_with_its_path(lab: RunningLab) -> None:
    manifest = (
        (EXAMPLES / "policy-demo-pods.yaml")
        .read_text()
        .replace("image: docker.io/library/busybox", "imago: busybox")
    )
    done = lab.kubectl("apply", "-f", "-", stdin=manifest, check=False)
    lab.kubectl("delete", "namespace", "calico-demo", "--ignore-not-found")
    assert done.returncode == 1
    assert "spec.containers[0].imago" in done.stderr


def test_exec_into_a_pod_that_is_not_running_says_so(lab: RunningLab) -> None:
    lab.kubectl(
        "run",
        "unschedulable",
        "--image=busybox",
        '--overrides={"spec":{"nodeSelector":{"no":"node"}}}',
    )
    done = lab.kubectl("exec", "unschedulable", "--", "true", check=False)
    described = lab.kubectl("describe", "pod", "unschedulable").stdout
    lab.kubectl("delete", "pod", "unschedulable", "--now")
    assert done.returncode == 1
    assert "does not have a host assigned" in done.stderr
    assert "0/6 nodes are available" in described


def test_an_unknown_image_ends_in_a_pull_error_with_its_event(lab: RunningLab) -> None:
    lab.kubectl("run", "unknown", "--image=registry.example/no/such:1")
    lab.kubectl(
        "wait",
        "pod/unknown",
        "--for=jsonpath={.status.containerStatuses[0].state.waiting.reason}",
        "--timeout=20s",
    )
    described = lab.kubectl("describe", "pod", "unknown").stdout
    lab.kubectl("delete", "pod", "unknown", "--now")
    assert 'Failed to pull image "registry.example/no/such:1"' in described
    assert "not found" in described
