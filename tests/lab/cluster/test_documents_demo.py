# SPDX-License-Identifier: Apache-2.0
"""The demo of the documents as they have it: four pods in the namespace calico-demo, their own
commands, and the policy that lets only linux-client reach windows-server.

The namespace may belong to somebody on a named cluster, so that the demo runs on labs alone. It
runs here by the official Python client, without anything of the suite. Source: "Creating network
policies" in the blog about Windows Server 1903, and the documents' demo for Calico for Windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config
from kubernetes.stream import stream
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from tests.lab.lab_process import running_lab

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
NAMESPACE = "calico-demo"
PODS = ("linux-client", "linux-server", "windows-client", "windows-server")
KINDS = ("untainted", "bgp", "aks-operator", "static-routes")
"""VXLAN, BGP, another vendor's plugin, and routes by hand."""


@dataclass(frozen=True)
class Demo:
    """The demo's pods on one lab."""

    core: client.CoreV1Api
    objects: client.CustomObjectsApi

    def pod(self, name: str) -> Any:
        return self.core.read_namespaced_pod(name, NAMESPACE)

    def ready(self) -> bool:
        """Whether Kubernetes says of all four pods that they are Ready."""
        conditions = [self.pod(name).status.conditions or () for name in PODS]
        return all(any(c.type == "Ready" and c.status == "True" for c in of) for of in conditions)

    @contextmanager
    def policy(self) -> Iterator[None]:
        """The demo's policy, from its creation until its deletion."""
        where = ("projectcalico.org", "v3", NAMESPACE, "networkpolicies")
        policy = yaml.safe_load((EXAMPLES / "policy-demo-policy.yaml").read_text())
        self.objects.create_namespaced_custom_object(*where, policy)
        try:
            yield
        finally:
            self.objects.delete_namespaced_custom_object(*where, policy["metadata"]["name"])

    def run(self, pod: str, *command: str) -> tuple[int, str]:
        """Exit code and output of a command in a pod."""
        exec_in = self.core.connect_get_namespaced_pod_exec
        given = {"command": list(command), "stdout": True, "stderr": True, "stdin": False}
        socket = stream(exec_in, pod, NAMESPACE, **given, tty=False, _preload_content=False)
        socket.run_forever(timeout=30)
        return socket.returncode, socket.read_stdout() + socket.read_stderr()

    def connect(self, server: str) -> tuple[int, str]:
        """What the documents do from linux-client."""
        address = self.pod(server).status.pod_ip
        return self.run("linux-client", "nc", "-vz", "-w", "3", address, "80")

    def fetch(self, server: str) -> tuple[int, str]:
        """What the documents do from windows-client."""
        url = f"http://{self.pod(server).status.pod_ip}"
        ask = ("Invoke-WebRequest", "-Uri", url, "-UseBasicParsing", "-TimeoutSec", "5")
        return self.run("windows-client", "powershell", *ask)

    def fetch_until_it_says(self, server: str, words: str) -> tuple[int, str]:
        """Fetch until the output has these words, for at most half a minute.

        Felix programs a policy some moments after it is there, and Windows resets a connection
        that is open at that moment.
        """
        again = retry_if_result(lambda answer: words not in answer[1])
        limit = stop_after_delay(30)
        last: Any = lambda state: state.outcome.result()  # noqa: E731 - the assertion shows it
        return Retrying(stop=limit, wait=wait_fixed(0.2), retry=again, retry_error_callback=last)(
            self.fetch, server
        )


@pytest.fixture(scope="module", params=KINDS)
def demo(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Demo]:
    folder = tmp_path_factory.mktemp(request.param)
    with running_lab(folder, "--profile", request.param) as lab:
        api = config.new_client_from_config(str(lab.kubeconfig))  # type: ignore[no-untyped-call]
        core = client.CoreV1Api(api)
        namespace, *pods = yaml.safe_load_all((EXAMPLES / "policy-demo-pods.yaml").read_text())
        core.create_namespace(namespace)
        for pod in pods:
            core.create_namespaced_pod(NAMESPACE, pod)
        begun = Demo(core, client.CustomObjectsApi(api))
        again = retry_if_result(lambda ready: not ready)
        Retrying(stop=stop_after_delay(60), wait=wait_fixed(0.2), retry=again)(begun.ready)
        yield begun
        api.close()


def test_everybody_reaches_the_servers_before_the_policy(demo: Demo) -> None:
    address = demo.pod("windows-server").status.pod_ip
    assert demo.connect("windows-server") == (0, f"{address} ({address}:80) open\n")
    code, text = demo.fetch("linux-server")
    assert (code, "Welcome to nginx!" in text) == (0, True), text
    code, text = demo.fetch("windows-server")
    assert (code, "<H1>Windows Container Web Server</H1>" in text) == (0, True), text


def test_the_policy_lets_linux_client_alone_reach_windows_server(demo: Demo) -> None:
    with demo.policy():
        timed_out = "The operation has timed out"
        code, text = demo.fetch_until_it_says("windows-server", timed_out)
        assert (code, timed_out in text) == (1, True), text
        assert demo.connect("windows-server")[0] == 0
        assert demo.fetch("linux-server")[0] == 0
    page = "Windows Container Web Server"
    code, text = demo.fetch_until_it_says("windows-server", page)
    assert (code, page in text) == (0, True), text
