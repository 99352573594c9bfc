# SPDX-License-Identifier: Apache-2.0
"""Components of a cluster that are not the suite's own, with the images that really ran, by
node."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Component:
    """A container of Calico, its operator, kube-proxy or a CNI plugin, on all nodes that run the
    same image."""

    workload: str
    """``calico-node-windows``: the DaemonSet or Deployment that owns the container's pods."""
    container: str
    image: str
    """The image's name in the pod."""
    version: str
    """The image's tag; empty: it has none."""
    digest: str
    """``sha256:...`` of the image that ran, as the node's container runtime reports it; empty: it
    reports none."""
    nodes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Installed:
    """The components of a cluster when the run began."""

    cluster_uid: str = ""
    """UID of the namespace kube-system, which exists as long as the cluster; empty: it could not be
    read."""
    components: tuple[Component, ...] = ()
    kubelets: dict[str, str] = field(default_factory=dict)
    """The version of the kubelet, by node."""
    hosts: dict[str, dict[str, str]] = field(default_factory=dict)
    r"""The readings that may distinguish a Windows node from other nodes of its build, by node:
    ``KB``, ``Culture``, ``LanguageMode``, ``.NET Release``, ``hns\State HnsAclUpdateChange``."""
    unread: tuple[str, ...] = ()
    """Data that could not be read, and why."""

    @property
    def versions(self) -> dict[str, str]:
        """Return the version of each component: ``v3.31.2`` for ``tigera-operator`` or
        ``calico-node felix``; several versions if nodes differ."""
        found: dict[str, list[str]] = {}
        for component in self.components:
            same = component.container == component.workload
            name = component.workload if same else f"{component.workload} {component.container}"
            found.setdefault(name, []).append(component.version)
        return {
            name: ", ".join(filter(None, dict.fromkeys(versions)))
            for name, versions in found.items()
        }
