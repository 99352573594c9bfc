# SPDX-License-Identifier: Apache-2.0
"""Facts about a cluster. "Unknown" is a value of its own, and every fact names its source."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar

from conformance.model.builds import build_name
from conformance.model.endpoint import OS

T = TypeVar("T")


@dataclass(frozen=True)
class Fact(Generic[T]):
    """A value and its source, or None and the reason why it is unknown."""

    value: T | None
    source: str
    """``Installation default .spec.calicoNetwork.bgp``, or ``not known: no right to get
    installations``."""

    @property
    def known(self) -> bool:
        return self.value is not None


@dataclass(frozen=True)
class Announced(Fact[str]):
    """A comparison with an announced or configured value: ``as announced``, or the different value
    that was found."""

    wanted: str = ""
    """The announced value, for messages."""


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """A node of the cluster."""

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
    uid: str = ""
    boot: str = ""
    """The node's boot id; empty: it is not known."""
    virtual: str = ""
    """The label that marks a virtual node, which stands for machines of a cloud service; empty: the
    node is a machine."""
    felix: Fact[bool] | None = None
    """True if Felix should run on this Windows node, with the source; None: the node runs Linux, or
    this was not read."""
    felix_restarts: int | None = None
    """The number of restarts of Felix in its pod on this node when the run began; None: Felix runs
    in no pod, or the number was not read."""
    unready: str = ""
    """Why the node is not Ready: status, reason and message of the condition, or a taint; empty: it
    is Ready."""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    taints: tuple[dict[str, Any], ...] = ()
    dsr: Fact[bool] = field(default_factory=lambda: Fact(None, "not known: not read"))
    """kube-proxy on this Windows node runs with ``--enable-dsr=true``; the node's build may not
    support direct server return."""
    update: Fact[str] = field(default_factory=lambda: Fact(None, "not known: not read"))
    """KB numbers of this Windows node's updates, separated by commas (``KB5044281``): from the
    node's label or annotation, or else from the list that a run has read in Windows."""
    cni: Fact[str] | None = None
    """The CNI plugin of this Windows node; None: it was not read, and the cluster's plugin
    counts."""
    ipam: Fact[str] | None = None
    """The IPAM plugin of this node's pods; None: it was not read, and the cluster's plugin
    counts."""
    install: Fact[str] | None = None
    """How Calico was installed on this Windows node; None: as on the other nodes, so the cluster's
    value counts."""
    plane: Fact[str] = field(default_factory=lambda: Fact(None, "not known: not read"))
    """The plane of this Windows node's pods: ``overlay`` or ``l2bridge``, the type of their HNS
    network."""
    pod_networks: tuple[str, ...] = ()
    """Networks from which this Windows node's pods get addresses: its blocks in Calico's IPAM, else
    its podCIDR; none if a cloud gives addresses. For Linux nodes, the podCIDR is known if flannel
    carries pods' packets."""
    differences: Fact[dict[str, str]] = field(
        default_factory=lambda: Fact(None, "not known: not read")
    )
    """Settings in which this Windows node may differ from others of its build: switches of HNS and
    VFP, .NET, LanguageMode, culture."""
    first_block: Fact[str] = field(default_factory=lambda: Fact(None, "not known: not read"))
    """The block that this Windows node had before its first pod; unknown if the node had pods when
    the run began."""

    @property
    def worker(self) -> bool:
        """Return whether ordinary pods can run on the node; a taint may reserve a control-plane
        node."""
        kept = any(taint.get("effect") in ("NoSchedule", "NoExecute") for taint in self.taints)
        return not (self.control_plane and kept)

    @property
    def without_calico(self) -> str:
        """Return why Calico should not run on this node; an empty string if Calico should run, or
        may run."""
        return self.virtual or (
            self.felix.source if self.felix and self.felix.value is False else ""
        )

    @property
    def build(self) -> str:
        """Return the name of the node's Windows build (:func:`build_name`); empty on Linux."""
        return build_name(self.windows_build) if self.os == "windows" else ""

    @property
    def revision(self) -> str:
        """Return the node's Windows build with the update's revision, ``20348.2762``; an empty
        string if it is not known, or the node is Linux."""
        return ".".join(map(str, self.windows_build or ()))


Mode = Literal["vxlan", "bgp", "policy-only", "mixed"]
Install = Literal["operator", "manifest", "manual", "platform", "agent"]
"""How Calico was installed on the Windows nodes: as a DaemonSet of the operator or of manifests; as
Windows services that somebody installed by hand (manual) or the platform did (AKS); as processes of
the distribution's agent (RKE2)."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All facts about one cluster that reports need, or that show whether a claim applies."""

    nodes: tuple[NodeFacts, ...]
    kubernetes_version: Fact[str]
    calico_version: Fact[str]
    mode: Fact[Mode]
    datastore: Fact[Literal["kubernetes", "etcd"]]
    install: Fact[Install]
    platform: Fact[str]
    calico_apis: Fact[tuple[str, ...]]
    """Group-versions of Calico that the server serves now."""
    cni: Fact[str]
    """The CNI plugin of the Windows nodes, or of the Linux nodes if there are no Windows nodes:
    ``Calico``, ``AmazonVPC``, ``flannel`` ..."""
    kube_proxy_mode: Fact[str]
    evidence: Literal["lab", "field"]
    apis_away: dict[str, str] = field(default_factory=dict)
    """The error for each group-version that discovery lists, but whose server does not answer."""
    ipam: Fact[str] = Fact(None, "not known: not read")
    """The IPAM plugin of Windows pods, or of Linux pods if there are no Windows nodes:
    ``calico-ipam``, ``host-local``, or a cloud's own."""
    calico_edition: Fact[str] = Fact(None, "not known: not read")
    """``Calico`` or ``Calico Enterprise``; claims are judged by the version of Calico that
    Enterprise is built on."""
    calico_on_nodes: dict[str, Fact[str]] = field(default_factory=dict)
    """The version of Calico on each node, from the node's pod or read on the host."""
    pod_network: Fact[str] = Fact(None, "not known: not read")
    """Regular expression (Felix' KUBE_NETWORK) that names the HNS network of Windows pods."""
    felix_pods: str = "k8s-app=calico-node-windows"
    """The label selector of Felix' pods on Windows nodes, if Felix runs in pods."""
    tigera_status: Fact[str] = Fact(None, "not known: not read")
    """Status of Calico's components by its operator: ``all 4 available``, or the components that
    are not available."""
    single_network: Fact[bool] = Fact(None, "not known: not read")
    """Calico's CNI plugin on Windows restricts a node to one network, which is one block."""
    mesh: Fact[bool] = Fact(None, "not known: not read")
    """Each node peers with each other node by default (``nodeToNodeMeshEnabled``)."""
    dual_stack: Fact[bool] = Fact(None, "not known: not read")
    """Pods get addresses of both IP versions."""
    kube_proxy_pods: Fact[bool] = Fact(None, "not known: not read")
    """kube-proxy runs in a pod on every Windows node, and not as a service of the host."""
    felix_overrides: dict[str, dict[str, Fact[str]]] = field(default_factory=dict)
    """The fields of FelixConfiguration ``default`` that are overridden, with the overriding
    settings, for ``linux``, ``windows`` or ``node.NAME``."""
    left_out: tuple[NodeFacts, ...] = ()
    """Nodes about which the run decides nothing: virtual nodes, and Windows nodes without Calico if
    other Windows nodes have it."""

    def calico_on(self, node: str) -> Fact[str]:
        """Return the version of Calico on a node; if a Linux node's version is not known, return
        the cluster's version. Windows nodes that run Calico as services may have any other version
        (on AKS, the version in the node's image)."""
        own = self.calico_on_nodes.get(node)
        if own is None or (
            not own.known and node not in {item.name for item in self.by_os("windows")}
        ):
            return self.calico_version
        return own

    def ipam_of(self, node: NodeFacts) -> Fact[str]:
        """Return the IPAM plugin of a node's pods, or the cluster's if the node's was not read."""
        return node.ipam or self.ipam

    def summed_up(self) -> Facts:
        """Return the facts with the Windows nodes' CNI plugin and IPAM plugin as the cluster's; a
        plugin is ``mixed`` if nodes differ."""
        windows = self.by_os("windows")
        return replace(
            self,
            cni=_together([node.cni for node in windows if node.cni], self.cni),
            ipam=_together([node.ipam for node in windows if node.ipam], self.ipam),
        )

    def learnt(self, name: str, node: str, fact: Fact[Any]) -> Facts:
        """Return the facts with an additional reading of a node. ``name``: a field of NodeFacts, or
        ``calico``."""
        if name == "install" and not self.install.known:
            return replace(self, install=fact)
        if name == "calico":
            return replace(self, calico_on_nodes={**self.calico_on_nodes, node: fact})
        changed: dict[str, Any] = {name: fact}
        nodes = tuple(
            item if item.name != node else replace(item, **changed) for item in self.nodes
        )
        return replace(self, nodes=nodes).with_calico().summed_up()

    def with_calico(self) -> Facts:
        """Return these facts without virtual nodes and Windows nodes without Calico. If no Windows
        node has Calico, all Windows nodes stay, so that reports can name them.
        """
        machines = [node for node in self.nodes if not node.virtual]
        bare = all(node.without_calico for node in machines if node.os == "windows")
        kept = tuple(node for node in machines if bare or not node.without_calico)
        out = tuple(node for node in self.nodes if node not in kept)
        return replace(self, nodes=kept, left_out=(*self.left_out, *out)) if out else self

    def by_os(self, os: OS) -> tuple[NodeFacts, ...]:
        return tuple(node for node in self.nodes if node.os == os)

    @functools.cached_property
    def derived(self) -> dict[Any, Any]:
        """Return values that are computed from these facts; each is computed once."""
        return {}

    def with_windows(self, names: tuple[str, ...]) -> Facts:
        """Return these facts with only the named Windows nodes; calls with equal ``names`` return
        the same object."""
        if names not in self.derived:
            windows = tuple(node for node in self.by_os("windows") if node.name in names)
            nodes = (*self.by_os("linux"), *windows)
            self.derived[names] = (
                replace(self, nodes=nodes) if len(nodes) < len(self.nodes) else self
            )
        found: Facts = self.derived[names]
        return found


def _together(facts: list[Fact[str]], otherwise: Fact[str]) -> Fact[str]:
    """Return the nodes' facts as a single fact; unknown if any node's fact is unknown."""
    unknown = next((fact for fact in facts if not fact.known), None)
    if unknown or not facts:
        return unknown or otherwise
    if len({fact.value for fact in facts}) == 1:
        return facts[0]
    return Fact("mixed", "; ".join(dict.fromkeys(f"{fact.value}: {fact.source}" for fact in facts)))
