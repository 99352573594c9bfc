"""What was found out about a cluster.  Unknown is a value of its own, and every fact says where it was read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from conformance.model.builds import build_name
from conformance.model.endpoint import OS

T = TypeVar("T")


@dataclass(frozen=True)
class Fact(Generic[T]):
    """A value and where it was read, or None and why it is not known."""

    value: T | None
    source: str
    """``Installation default .spec.calicoNetwork.bgp``, or ``not known: no right to get installations``."""

    @property
    def known(self) -> bool:
        """Whether it was read."""
        return self.value is not None


@dataclass(frozen=True)
class Announced(Fact[str]):
    """A fact that others announce what to expect of: its value says ``as announced``, or what is there instead."""

    wanted: str = ""
    """What in particular is announced, for messages."""


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """One node."""

    name: str
    os: OS
    address: str
    ready: bool
    schedulable: bool
    control_plane: bool
    kernel_version: str
    os_image: str
    container_runtime: str
    windows_build: tuple[int, int] | None = None
    """Build and UBR, ``(20348, 2762)``; None on Linux."""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    taints: tuple[dict[str, Any], ...] = ()
    dsr: Fact[bool] = field(default_factory=lambda: Fact(None, "not known: nothing was asked"))
    """kube-proxy on this Windows node runs with ``--enable-dsr=true``; its build may not be able to do it."""
    update: Fact[str] = field(default_factory=lambda: Fact(None, "not known: nothing was asked"))
    """KB numbers of this Windows node's updates, ``KB5044281``: of what names them on the node, else those that Windows
    lists, where a run looked into the node; with commas."""
    ipam: Fact[str] | None = None
    """The IPAM plugin of this node's own pods; None: nobody looked for one of its own, and the cluster's counts."""
    plane: Fact[str] = field(default_factory=lambda: Fact(None, "not known: not read"))
    """What carries this Windows node's pods: ``overlay`` or ``l2bridge``, the type of their HNS network."""

    @property
    def worker(self) -> bool:
        """Whether it is there for ordinary pods: no node of the control plane that a taint keeps for itself."""
        kept = any(taint.get("effect") in ("NoSchedule", "NoExecute") for taint in self.taints)
        return not (self.control_plane and kept)

    @property
    def build(self) -> str:
        """Name of its Windows build (:func:`build_name`); empty on Linux."""
        return build_name(self.windows_build) if self.os == "windows" else ""

    @property
    def revision(self) -> str:
        """Its Windows build with the update's revision, ``20348.2762``; empty: not known, or Linux."""
        return ".".join(map(str, self.windows_build or ()))


Mode = Literal["vxlan", "bgp", "policy-only", "mixed"]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything applicability and reports need to know about one cluster."""

    nodes: tuple[NodeFacts, ...]
    kubernetes_version: Fact[str]
    calico_version: Fact[str]
    mode: Fact[Mode]
    datastore: Fact[Literal["kubernetes", "etcd"]]
    install: Fact[Literal["operator", "manifest", "manual"]]
    platform: Fact[str]
    calico_apis: Fact[tuple[str, ...]]
    """Group-versions of Calico that the server serves."""
    cni: Fact[str]
    kube_proxy_mode: Fact[str]
    evidence: Literal["lab", "field"]
    ipam: Fact[str] = Fact(None, "not known: not read")
    """The IPAM plugin of pods: ``calico-ipam``, ``host-local``, or a cloud's own."""
    calico_edition: Fact[str] = Fact(None, "not known: not read")
    """``Calico`` or ``Calico Enterprise``; claims are judged by the version of Calico that Enterprise is built on."""
    calico_on_nodes: dict[str, Fact[str]] = field(default_factory=dict)
    """Node to the version of Calico in its pod; not known where there is no pod."""
    tigera_status: Fact[str] = Fact(None, "not known: not read")
    """What Calico's operator says of its components: ``all 4 available``, or those that are not."""
    single_network: Fact[bool] = Fact(None, "not known: not read")
    """Calico's CNI plugin on Windows keeps a node to one network, which is one block."""
    mesh: Fact[bool] = Fact(None, "not known: not read")
    """Every node is every other node's BGP peer by itself (``nodeToNodeMeshEnabled``)."""
    dual_stack: Fact[bool] = Fact(None, "not known: not read")
    """Pods get addresses of both IP versions."""

    def calico_on(self, node: str) -> Fact[str]:
        """The version of Calico on a node, the cluster's where its own is not known."""
        own = self.calico_on_nodes.get(node)
        return own if own and own.known else self.calico_version

    def ipam_of(self, node: NodeFacts) -> Fact[str]:
        """The IPAM plugin of a node's pods, the cluster's where nobody looked for one of its own."""
        return node.ipam or self.ipam

    def by_os(self, os: OS) -> tuple[NodeFacts, ...]:
        """Nodes of one OS."""
        return tuple(node for node in self.nodes if node.os == os)
