# SPDX-License-Identifier: Apache-2.0
"""What runs on a cluster beside the suite's pods: components with the images that really ran, by node."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Component:
    """A container of Calico, its operator, kube-proxy or a CNI plugin, on all nodes that run the same image."""

    workload: str
    """``calico-node-windows``: the DaemonSet or Deployment that owns its pods."""
    container: str
    image: str
    """As the pod names it."""
    version: str
    """The image's tag; empty: it has none."""
    digest: str
    """``sha256:...`` of what ran, as the node's container runtime says; empty: it says none."""
    nodes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What is installed on one cluster, when the run began."""

    cluster_uid: str = ""
    """UID of the namespace kube-system, which lives as long as the cluster; empty: it could not be read."""
    components: tuple[Component, ...] = ()
    kubelets: dict[str, str] = field(default_factory=dict)
    """Node to its kubelet's version."""
    hosts: dict[str, dict[str, str]] = field(default_factory=dict)
    """Windows node to what may tell it from others of its build, as far as a look into it told: ``KB``, ``Culture``,
    ``LanguageMode``, ``.NET Release``, ``hns\\State HnsAclUpdateChange``."""
    unread: tuple[str, ...] = ()
    """What could not be read, and why."""

    @property
    def versions(self) -> dict[str, str]:
        """``tigera-operator`` or ``calico-node felix`` to ``v3.31.2``; several versions where nodes differ."""
        found: dict[str, list[str]] = {}
        for component in self.components:
            same = component.container == component.workload
            name = component.workload if same else f"{component.workload} {component.container}"
            found.setdefault(name, []).append(component.version)
        return {
            name: ", ".join(filter(None, dict.fromkeys(several))) for name, several in found.items()
        }
