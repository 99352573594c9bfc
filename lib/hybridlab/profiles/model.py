# SPDX-License-Identifier: Apache-2.0
"""The kind of cluster that a lab emulates: facts only, no behaviour and no expected result.

A profile is a YAML file with the fields below as keys; an unknown key is an error that names file
and line. ``hybridlab up --set network.pod_cidr=10.244.0.0/16`` overrides a field by its dotted
path.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hybridlab import assumed

OS = Literal["linux", "windows"]


@dataclass(frozen=True, kw_only=True)
class Kubernetes:
    """The control plane. On EKS it is not visible: ``control_plane`` only gives the address of its
    endpoint."""

    version: str = "v1.34.1"
    provider: Literal["none", "EKS", "AKS", "OpenShift", "RKE2"] = "none"


@dataclass(frozen=True, kw_only=True)
class CalicoDefects:
    """Undocumented defects of Felix on Windows, each shown by a run of its code; false unless a
    profile sets it.

    Sources are files of projectcalico/calico under felix/.
    """

    staged_policies_deny: bool = False
    """A staged policy denies, and the policies after it in its tier have no effect
    (dataplane/windows/policysets; v3.30.0 on)."""
    pass_may_open_every_port: bool = False
    """A Pass rule with ports, followed by a rule that has none of these ports, makes the second
    rule apply to every port (dataplane/windows/flattener.go; v3.29.0 on)."""
    pass_may_panic: bool = False
    """A Pass rule with ports and a later rule with the same highest port make Felix panic, restart
    and panic again; programmed rules stay (dataplane/windows/flattener.go; v3.29.0 on)."""
    later_tiers_go_stale: bool = False
    """Edited rules and changed members of sets in tiers after an endpoint's first tier do not reach
    the endpoint (dataplane/windows/endpoint_mgr.go; v3.29.0 on)."""
    edited_rules_go_stale: bool = False
    """Edited rules do not reach endpoints that are already programmed, until one of their labels
    changes (dataplane/windows/endpoint_mgr.go; v3.32.0 on)."""
    service_rules_match_members_only: bool = False
    """A rule with destination.services matches only the addresses and ports behind the Service
    (dataplane/windows/policysets; v3.29.0 on)."""


@dataclass(frozen=True, kw_only=True)
class CalicoSettings:
    """Calico's version and how it was installed."""

    version: str = "v3.31.2"
    windows_version: str = ""
    """Calico's version on Windows nodes, if it differs from the version on Linux nodes: the images
    of AKS contain their own version. Empty: the same version."""
    install: Literal["operator", "manifest", "services", "agent", "platform"] = "operator"
    """services: by manifests on Linux, and on Windows nodes by Calico's scripts as the services
    CalicoFelix and CalicoNode, without a pod (by hand, AKS). agent: by the operator on Linux, and
    on Windows nodes as processes of RKE2's agent, which the operator does not know. platform: the
    services on Windows, and on Linux an operator that does not know of the Windows nodes (AKS'
    add-on)."""
    v3_api: bool = True
    """True: projectcalico.org/v3 is served (the aggregated API server is installed)."""
    crd_v1_api: bool = True
    """True: crd.projectcalico.org/v1 is served."""
    defects: CalicoDefects = CalicoDefects()

    def on(self, os: OS) -> str:
        """Return Calico's version on nodes of an operating system."""
        return (self.windows_version if os == "windows" else "") or self.version


@dataclass(frozen=True, kw_only=True)
class PlaneSettings:
    """The way in which pods' packets reach other nodes.

    Each kind of plane has fields of its own: a subclass next to the plane's behaviour in
    ``networks``.
    """

    kind: str

    def problem(self, profile: Profile) -> tuple[str, str] | None:
        """Return the name of a field whose value is well-formed but impossible, and the reason. An
        empty name means the whole plane; None: every value is possible."""
        return None


@dataclass(frozen=True, kw_only=True)
class Network:
    """Pod and service networking."""

    plane: PlaneSettings
    """The plane's ``kind``, and the settings of that kind of plane."""
    pod_cidr: str = "192.168.0.0/16"
    block_size: int = 26
    ipam: Literal["calico-ipam", "host-local", "platform"] = "calico-ipam"
    """The source of pods' addresses: blocks of Calico, the node's podCIDR, or the platform, which
    reserves a /24 for each node and leaves podCIDR empty."""
    pools: tuple[str, ...] = ()
    """Further enabled pools, each a CIDR. A pod gets an address of such a pool only if it requests
    the pool."""
    service_cidr: str = "10.96.0.0/12"
    node_cidr: str = "10.0.0.0/24"
    underlay_mtu: int = 1500
    calico_mtu: int | None = None
    """Installation .spec.calicoNetwork.mtu, bytes, for Linux pods and tunnels. None: the underlay's
    MTU less the overhead."""
    windows_mtu: int | None = None
    """The MTU inside Windows pods, bytes. None: the underlay's MTU less the overhead (deduced:
    Calico's Windows CNI sets no MTU)."""
    nat_outgoing: bool = True
    strict_affinity: bool = True
    dns_domain: str = "cluster.local"
    outside_address: str = "198.51.100.10"
    """A host outside the cluster that answers ping and HTTP; empty: there is none."""


@dataclass(frozen=True, kw_only=True)
class KubeProxy:
    """kube-proxy's mode."""

    windows_dsr: bool = True
    """kube-proxy on Windows is configured for DSR, by --enable-dsr=true or by its configuration
    file. A node group may override it."""
    windows: Literal["arguments", "sig-windows-tools", "service", "configuration"] = "arguments"
    """How kube-proxy is installed on Windows nodes. arguments: a DaemonSet kube-proxy-windows with
    kube-proxy's own arguments. sig-windows-tools: that repository's DaemonSet
    (hostprocess/calico/kube-proxy), whose command is only start.ps1; the script determines the
    arguments. service: a process of the host without a pod (AKS, EKS, RKE2, by hand).
    configuration: a process of the host with a configuration file (``--config``) that sets DSR, so
    that its --enable-dsr=true has no effect."""
    node_port_range: str = "30000-32767"

    @property
    def on_host(self) -> bool:
        """Return whether Windows nodes run kube-proxy without a pod."""
        return self.windows in {"service", "configuration"}


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Behaviour of Windows nodes that neither documents nor reports from real clusters decide."""

    reset: Literal["remote", "both"] = "remote"
    """The endpoint that receives the RST when a pod's ACL list is replaced. remote: only the peer,
    and the pod's own socket stalls (calico#10199). both: the pod's own socket as well."""
    cni_config_dir: str = "/etc/cni/net.d"
    """Folder of the CNI configuration on Windows nodes, in the form of
    ``windowsNodes.cniConfigDir`` and ``CNI_NET_DIR``. EKS: /Program Files/Amazon/EKS/cni/config;
    AKS: /k/azurecni/netconf; RKE2: /var/lib/rancher/rke2/agent/etc/cni/net.d; installed by hand:
    /k/cni/config."""
    windows_to_windows_with_new_vni: Literal["holds", "breaks"] = "holds"
    """What happens to traffic between pods of two Windows nodes while the VNI in their packets
    differs from the VSID of their HNS networks (deduced: nobody has reported it)."""
    probe_open_limit: int = 4000
    """The maximum number of simultaneous attempts of the emulated probe agent, which its hello
    reports (docs/probe-protocol.md): the limit of the program, or less if a pod may open fewer
    sockets."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Delays of the lab in milliseconds; 0 is as fast as the machine allows."""

    linux_policy_delay_ms: int = 0
    windows_policy_delay_ms: int = 0
    exec_cost_ms: int = 0
    """The delay that is added to every exec before its command starts."""
    powershell_start_ms: int = 0
    windows_refused_ms: int = 1000 * assumed.value("refused-late")
    """The delay after which programs of Windows pods are notified that a TCP connection was
    refused. On real nodes 1000 to 3000: after a reset Winsock repeats its SYN every 500 ms before
    it reports the refusal (Microsoft KB175523)."""
    node_unknown_ms: int = 1500
    """The time for which a node's kubelet is silent before the node's condition Ready becomes
    Unknown and the node is tainted. On real clusters 50,000 (kube-controller-manager
    --node-monitor-grace-period; 40,000 before Kubernetes 1.32)."""
    image_pull_ms: int = 0
    pod_start_ms: int = 0
    daemon_replaced_ms: int = 1000
    """The time for which a node has no pod of a DaemonSet after its pod was deleted. On real
    clusters this takes seconds: the old pod's grace period, the pull of the new pod's image and its
    init containers. Pods that the controller itself replaces do not wait."""


@dataclass(frozen=True, kw_only=True)
class NodeGroup:
    """``count`` machines with the same settings."""

    name: str
    """The nodes' names: ``NAME`` if count is 1, else ``NAME-1``, ``NAME-2`` and so on."""
    os: OS
    count: int = 1
    control_plane: bool = False
    windows_build: str = ""
    """``10.0.20348.2762``: build and UBR of a Windows node."""
    windows_registry: dict[str, str] = field(default_factory=dict)
    """Values in the registry of these Windows hosts by their paths below HKLM, for example switches
    of HNS and VFP; values of digits are DWORDs."""
    windows_updates: tuple[str, ...] = ()
    """KB numbers of the updates that Windows lists as installed, ``KB5044281``; empty: it lists none."""
    os_image: str = ""
    kernel_version: str = ""
    container_runtime: str = "containerd://1.7.24"
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    """``key=value:Effect``."""
    max_pods: int = 110
    resources: dict[str, str] = field(default_factory=dict)
    """Extended resources of each node: name to amount."""
    provider_id: str = ""
    windows_dsr: bool | None = None
    """The value of kube_proxy.windows_dsr on these Windows nodes; None: as in the whole cluster."""
    node_cidr: str = ""
    """The subnet of these machines, behind the underlay's router; empty: network.node_cidr."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A complete kind of cluster."""

    name: str
    description: str
    kubernetes: Kubernetes = Kubernetes()
    calico: CalicoSettings = CalicoSettings()
    network: Network
    kube_proxy: KubeProxy = KubeProxy()
    windows: Windows = Windows()
    timing: Timing = Timing()
    nodes: tuple[NodeGroup, ...] = ()
