# SPDX-License-Identifier: Apache-2.0
"""Faults of the API server, as clients notice them: it refuses, is away, or becomes silent."""

from __future__ import annotations

import subprocess
import time

import pytest

from tests.lab.faults.town import Town

pytestmark = pytest.mark.xdist_group("api-faults")


@pytest.mark.parametrize(("fault", "code"), [("api-429", 429), ("api-500", 500), ("api-503", 503)])
def test_the_api_refuses_requests_for_a_while(town: Town, fault: str, code: int) -> None:
    from kubernetes import client, config

    configuration = client.Configuration()
    config.load_kube_config(str(town.lab.kubeconfig), client_configuration=configuration)  # type: ignore[no-untyped-call]
    configuration.retries = False
    api = client.CoreV1Api(client.ApiClient(configuration))
    with town.fault(fault, seconds="600"):
        with pytest.raises(client.ApiException) as refused:
            api.list_node()
        assert refused.value.status == code
        assert bool((refused.value.headers or {}).get("Retry-After")) == (code == 429)
    with town.fault(fault, seconds="600", namespace="elsewhere"):
        assert len(api.list_node().items) == 6
    assert len(api.list_node().items) == 6


def test_nobody_reaches_the_api_for_a_while_and_open_watches_are_cut(town: Town) -> None:
    watching = subprocess.Popen(
        ["kubectl", "--kubeconfig", str(town.lab.kubeconfig), "get", "--raw", "/api/v1/nodes?watch=true"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert watching.stdout
    assert watching.stdout.readline()
    with town.fault("api-unreachable", seconds="600"):
        watching.communicate(timeout=20)  # ends only because it was cut
        assert town.lab.kubectl("get", "--raw", "/readyz", check=False).returncode != 0
    assert town.lab.kubectl("get", "--raw", "/readyz").stdout == "ok"


def test_a_watch_falls_silent_stays_open_and_the_next_one_speaks(town: Town) -> None:
    def watch(seconds: int) -> subprocess.Popen[str]:
        path = f"/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds={seconds}"
        command = ["kubectl", "--kubeconfig", str(town.lab.kubeconfig), "get", "--raw", path]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    silent = watch(2)
    assert silent.stdout
    assert silent.stdout.readline(), "it speaks at first"
    try:
        with town.fault("watch-silent", namespace="default"):
            town.lab.kubectl("create", "configmap", "unheard")
            assert "unheard" in town.lab.kubectl("get", "configmaps").stdout, "a list says it"
            time.sleep(3)
            assert silent.poll() is None, "its own time is over, and it is not closed"
        time.sleep(0.5)
        assert silent.poll() is None, "a connection that was forgotten stays so"
    finally:
        silent.kill()
        rest, _ = silent.communicate(timeout=10)
    assert "unheard" not in rest
    speaking = watch(1)
    heard, _ = speaking.communicate(timeout=20)
    town.lab.kubectl("delete", "configmap", "unheard")
    assert "unheard" in heard


def test_only_so_many_watches_fall_silent(town: Town) -> None:
    path = "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1"
    with town.fault("watch-silent", namespace="default", first="1"):
        first = subprocess.Popen(
            ["kubectl", "--kubeconfig", str(town.lab.kubeconfig), "get", "--raw", path],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            time.sleep(2)
            assert first.poll() is None
            assert town.lab.kubectl("get", "--raw", path).returncode == 0, (
                "the second one ends in time"
            )
        finally:
            first.kill()
            first.wait(timeout=10)
