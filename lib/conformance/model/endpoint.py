# SPDX-License-Identifier: Apache-2.0
"""The two ends of an attempt: sources and targets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from conformance.model.builds import build_name

OS = Literal["linux", "windows"]
SYSTEMS: tuple[OS, ...] = ("linux", "windows")
Protocol = Literal["tcp", "udp"]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A running pod that can send or serve: identity, place, addresses.

    ``os`` is the OS of the node on which the pod runs, read from the Node, never from a selector.
    ``uid`` and ``restarts`` show whether the pod is still the pod with which a check began.
    """

    namespace: str
    pod: str
    container: str
    uid: str
    role: str
    """The pod's role, as in the manifests: ``client``, ``server``, ``node`` (hostNetwork) ..."""
    os: OS
    node: str
    address: str
    node_address: str
    restarts: int = 0
    host_network: bool = False
    windows_build: str = ""
    """``20348.2762``; empty: it is not known, or the node is Linux."""
    created: str = ""
    """The pod's creationTimestamp (RFC 3339); empty: it is not known."""
    ready_since: str = ""
    """When the kubelet's probes found the pod's containers ready (RFC 3339); empty: it is not
    known."""
    is_ending: bool = False
    """A test has deleted the pod, and probes it during its grace period."""

    @property
    def build(self) -> str:
        """Return the name of the Windows build of the pod's node
        (:func:`conformance.model.builds.build_name`); empty on Linux."""
        if self.os != "windows":
            return ""
        build, dot, revision = self.windows_build.partition(".")
        return build_name((int(build), int(revision)) if dot else None)

    @property
    def label(self) -> str:
        """Return the pod's name in messages: ``namespace/pod (windows, node win-2)``."""
        return f"{self.namespace}/{self.pod} ({self.os}, node {self.node})"

    def tcp(self, port: int) -> Target:
        """Return a TCP port of the pod's own address, as a target."""
        return self._own(port, "tcp")

    def udp(self, port: int) -> Target:
        """Return a UDP port of the pod's own address, as a target."""
        return self._own(port, "udp")

    def _own(self, port: int, protocol: Protocol) -> Target:
        return Target(
            host=self.address,
            port=port,
            protocol=protocol,
            path=Addressing.NODE_IP if self.host_network else Addressing.POD_IP,
            backends=(self,),
            name=f"{self.pod}, {self.os}, node {self.node}",
        )


class Addressing(StrEnum):
    """The ways to address a target."""

    POD_IP = "pod-ip"
    CLUSTER_IP = "cluster-ip"
    NODE_PORT = "node-port"
    NODE_IP = "node-ip"
    NAME = "name"
    EXTERNAL = "external"


@dataclass(frozen=True, kw_only=True)
class Target:
    """The target of an attempt. ``backends`` are the workloads that may answer there; a Service
    often has several."""

    host: str
    """The address or DNS name, exactly as it is given to the probe."""
    port: int
    protocol: Protocol
    path: Addressing
    backends: tuple[Workload, ...] = ()
    name: str = ""
    """A name for messages, such as ``service/web``."""
    backend_port: int = 0
    """The port of the ``backends``; 0: the same as ``port``."""
    at: Workload | None = None
    """For a NodePort: a pod on the called node, wherever the backends are."""

    @property
    def label(self) -> str:
        where = f"{self.host}:{self.port}/{self.protocol}"
        return f"{where} ({self.name})" if self.name else where


Pair = tuple[Workload, Target]
"""A client and its target: the two ends of a path."""
