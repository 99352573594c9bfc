# SPDX-License-Identifier: Apache-2.0
"""Changes, through the API, of what flannel and Amazon's controller declare about Windows nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.detection.lab_api import Api

WINDOWS_NODES = ("windows-2022", "windows-2019")


def _annotate(api: Api, name: str, value: str | None) -> None:
    annotations = {f"flannel.alpha.coreos.com/{name}": value}
    for node in WINDOWS_NODES:
        api.merge(f"/api/v1/nodes/{node}", {"metadata": {"annotations": annotations}})


@contextmanager
def flannel_says_vxlan(api: Api) -> Iterator[None]:
    """Let flanneld declare on Windows nodes that its VXLAN carries their pods."""
    _annotate(api, "backend-type", "vxlan")
    yield
    _annotate(api, "backend-type", "host-gw")


@contextmanager
def flannel_is_managed_elsewhere(api: Api) -> Iterator[None]:
    """Let flanneld no longer declare on Windows nodes that the Kubernetes API manages them."""
    _annotate(api, "kube-subnet-manager", None)
    yield
    _annotate(api, "kube-subnet-manager", "true")


@contextmanager
def vpc_controller_leaves_windows_out(api: Api) -> Iterator[None]:
    """Do not tell the VPC resource controller to serve Windows."""
    path = "/api/v1/namespaces/kube-system/configmaps/amazon-vpc-cni"
    api.merge(path, {"data": {"enable-windows-ipam": "false"}})
    yield
    api.merge(path, {"data": {"enable-windows-ipam": "true"}})


EDITS: dict[str, Callable[..., contextlib.AbstractContextManager[None]]] = {
    item.__name__: item
    for item in (
        flannel_says_vxlan,
        flannel_is_managed_elsewhere,
        vpc_controller_leaves_windows_out,
    )
}
