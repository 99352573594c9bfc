# SPDX-License-Identifier: Apache-2.0
"""The interface between kubelets and the network plugin (CNI): give a pod an address and connect
it, and undo both.

Calico implements it (IPAM and ``Dataplane.add_pod``), kubelets use it; neither imports the other.
It is not used for pods on the host network: their kubelet registers them with
``Dataplane.add_pod(address=None)``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class SandboxError(Exception):
    """The pod cannot be connected now; the message is the plugin's own and becomes the
    FailedCreatePodSandBox event.

    The kubelet tries again.
    """


@dataclass(frozen=True, kw_only=True)
class PodAttachment:
    """The result of connecting a pod."""

    address: str
    gateway: str
    mtu: int
    mac: str | None = None
    annotations: dict[str, str] = field(default_factory=dict)
    """The plugin's annotations of the pod (``cni.projectcalico.org/podIP`` ...); written by the
    kubelet."""


class PodNetwork(Protocol):
    """The network plugin of every node."""

    async def attach(self, pod: Mapping[str, Any], node: str) -> PodAttachment:
        """Connect the pod on the node. Raise :class:`SandboxError`; idempotent per pod uid."""

    async def detach(self, pod_uid: str) -> None:
        """Remove the pod's interface and release its address; do nothing if there are none."""
