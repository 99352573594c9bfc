# SPDX-License-Identifier: Apache-2.0
"""Components are reported with the images that ran, by node; components that may not be read are
named, and end nothing."""

from __future__ import annotations

from typing import Any

from conformance.facts.installed import components, installed, tag


def pod(
    workload: str, node: str, image: str, digest: str = "", kind: str = "DaemonSet"
) -> dict[str, Any]:
    owner = workload if kind == "DaemonSet" else f"{workload}-6d5f"
    return {
        "metadata": {
            "name": f"{workload}-{node}",
            "ownerReferences": [{"kind": kind, "name": owner}],
        },
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": image}]},
        "status": {
            "containerStatuses": [
                {"name": "main", "imageID": f"{image}@{digest}" if digest else ""}
            ]
        },
    }


def test_nodes_that_run_one_image_are_told_together_and_another_version_apart() -> None:
    old, new = "quay.io/calico/node-windows:v3.30.4", "quay.io/calico/node-windows:v3.31.2"
    found = components([
        pod("calico-node-windows", "win-2", new, "sha256:b"), pod("calico-node-windows", "win-1", new, "sha256:b"),
        pod("calico-node-windows", "win-3", old), pod("a-users-own", "win-1", "x"),
        pod("tigera-operator", "linux-1", "quay.io/tigera/operator:v1.40.0", "sha256:c", kind="ReplicaSet"),
    ])  # fmt: skip
    assert [
        (component.workload, component.version, component.digest, component.nodes)
        for component in found
    ] == [
        ("calico-node-windows", "v3.30.4", "", ("win-3",)),
        ("calico-node-windows", "v3.31.2", "sha256:b", ("win-1", "win-2")),
        ("tigera-operator", "v1.40.0", "sha256:c", ("linux-1",)),
    ]


def test_a_tag_is_told_from_a_registrys_port() -> None:
    assert [tag(item) for item in ("host:5000/a/b", "host:5000/a/b:v1", "b:v1@sha256:0")] == [
        "",
        "v1",
        "v1",
    ]


def test_what_may_not_be_read_is_named(kube: Any, world: Any) -> None:
    found = installed(kube)
    assert found.cluster_uid == ""
    assert "there is no Namespace kube-system" in found.unread
