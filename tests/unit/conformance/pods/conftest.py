# SPDX-License-Identifier: Apache-2.0
"""Nodes and facts for tests of placement and pods."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.model.facts import Fact, Facts, NodeFacts


def node(name: str, os: str = "linux", build: int = 0, **more: Any) -> NodeFacts:
    labels = {"kubernetes.io/os": os, "kubernetes.io/hostname": name}
    labels |= {"node.kubernetes.io/windows-build": f"10.0.{build}"} if build else {}
    fields = {
        "name": name, "os": os, "address": "192.0.2.1", "ready": True, "schedulable": True, "control_plane": False,
        "kernel_version": "", "os_image": "", "container_runtime": "", "labels": labels,
        "windows_build": (build, 1) if build else None,
    }  # fmt: skip
    return NodeFacts(**{**fields, **more})


def facts(*nodes: NodeFacts) -> Facts:
    unknown: Fact[Any] = Fact(None, "a test")
    return Facts(
        nodes=nodes, kubernetes_version=unknown, calico_version=unknown, mode=unknown, datastore=unknown,
        install=unknown, platform=unknown, calico_apis=unknown, cni=unknown, kube_proxy_mode=unknown,
        evidence="field",
    )  # fmt: skip


@pytest.fixture
def make() -> Any:
    """Builds nodes and facts."""

    class Make:
        node = staticmethod(node)
        facts = staticmethod(facts)

    return Make
