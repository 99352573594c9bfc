# SPDX-License-Identifier: Apache-2.0
"""Helm's SDK by ``helm-python-sdk``: ``python helm_sdk.py KUBECONFIG NAMESPACE``."""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import helm_python as helm

from tests.contract.clients.programs.steps import step

VALUES = {"image": {"tag": "1.27"}}


def main() -> None:
    kubeconfig, namespace = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        helm.Chart.create("web", folder)
        chart = f"{folder}/web"
        config: Any = helm.Config(kubeconfig_path=kubeconfig, namespace=namespace)

        def install(name: str, **more: Any) -> None:
            config.install(
                chart, name, {**VALUES, **more}, wait="watcher", timeout=60, create_namespace=True
            )

        def upgraded() -> None:
            config.upgrade(chart, "web", {**VALUES, "replicaCount": 2}, wait="watcher", timeout=60)
            assert len(config.history("web")) == 2

        step("install --wait", lambda: install("web"))
        step("upgrade and history", upgraded)
        step("rollback", lambda: config.rollback("web", version=1))
        step("install with autoscaling", lambda: install("scaled", autoscaling={"enabled": True}))
        step("install with an ingress", lambda: install("opened", ingress={"enabled": True}))
        step("uninstall", lambda: config.uninstall("web", wait="watcher", timeout=60))


main()
