# SPDX-License-Identifier: Apache-2.0
"""``kr8s``: ``python kr8s_client.py KUBECONFIG NAMESPACE``."""

from __future__ import annotations

import sys
import urllib.request
from typing import Any

import kr8s
from kr8s.objects import Deployment, Namespace

from tests.contract.clients.programs.steps import step

LABELS = {"app": "kr8s"}


def main() -> None:
    kubeconfig, namespace = sys.argv[1:3]
    api = kr8s.api(kubeconfig=kubeconfig)
    containers = [{"name": "c", "image": "nginx:1.27"}]
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": containers}}
    spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
    deployment = Deployment(
        {"metadata": {"name": "d", "namespace": namespace}, "spec": spec}, api=api
    )
    space = Namespace({"metadata": {"name": namespace}}, api=api)

    def pods() -> list[Any]:
        return list(api.get("pods", namespace=namespace, label_selector=LABELS))

    def watched() -> None:
        for _, pod in api.watch("pods", namespace=namespace):
            assert pod.metadata.name
            return
        raise AssertionError("a watch ended without an event")

    def run_in_pod() -> None:
        said = pods()[0].exec(["hostname"]).stdout.decode().strip()
        assert said == pods()[0].name, repr(said)

    def scaled() -> None:
        deployment.scale(2)
        deployment.wait("jsonpath='{.status.readyReplicas}'=2", timeout=30)
        assert len(pods()) == 2

    def forwarded() -> None:
        with pods()[0].portforward(remote_port=80) as port:
            urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=10).read()

    def jobs() -> None:
        assert list(api.get("jobs", namespace=namespace)) == []

    step("create", lambda: (space.create(), deployment.create()))
    step("wait", lambda: deployment.wait("condition=Available", timeout=30))
    step("list", lambda: len(pods()) == 1 or sys.exit("no pod"))
    step("watch", watched)
    step("scale", scaled)
    step("exec", run_in_pod)
    step("logs", lambda: list(pods()[0].logs()))
    step("list jobs", jobs)
    step("port-forward", forwarded)
    step("delete the namespace", space.delete)


main()
