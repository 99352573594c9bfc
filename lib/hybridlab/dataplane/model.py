# SPDX-License-Identifier: Apache-2.0
"""What the data plane is told: plain frozen shapes that cross the socket between the cluster and labd.

Every shape crosses as JSON (``kernel.shapes``).  Addresses are dotted quads, networks are ``a.b.c.d/n``, MACs are
lower-case with colons, sizes are bytes.  Nothing here knows Kubernetes.
"""

from dataclasses import dataclass, field
from typing import Literal

OS = Literal["linux", "windows"]
Entry = Literal["route", "neighbour", "forwarding"]
"""What leads to another node's block: the route by its tunnel, the tunnel's MAC address, and the node that has it."""


@dataclass(frozen=True, kw_only=True)
class Tunnel:
    """The device by which a node sends to other nodes' pods in UDP packets of its own: static, no learning."""

    device: str
    """Its name."""
    identifier: int
    """What tells this network's packets from another one's; both ends must have the same."""
    port: int
    mtu: int
    address: str
    mac: str


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """One machine: a network namespace with ``eth0`` on the underlay fabric."""

    name: str
    os: OS
    address: str
    """Underlay address."""
    prefix_length: int
    underlay_mtu: int = 1500
    tunnel: Tunnel | None = None
    pod_prefix: str = "cali"
    """How the names of its pods' interfaces begin."""
    reset: Literal["remote", "both"] = "remote"
    """Windows: who gets a TCP reset when a pod's ACL list is replaced."""


@dataclass(frozen=True, kw_only=True)
class TunnelRoute:
    """A network on another node that is reached by the tunnel: route, neighbour and fdb entry that lead there."""

    cidr: str
    node_address: str
    tunnel_address: str
    tunnel_mac: str
    identifier: int | None = None
    """What is sent there carries this one (HNS: IsolationId of the remote subnet route); None: the device's own."""
    lacks: tuple[Entry, ...] = ()
    """Fault: what of it is not laid."""


@dataclass(frozen=True, kw_only=True)
class DirectRoute:
    """A network on another node that is reached by the node's own address, which has to be on this underlay."""

    cidr: str
    via: str
    protocol: int
    """Who laid it, as ``ip route`` shows it: 12 BIRD, 4 static, 3 boot, 80 Felix."""


@dataclass(frozen=True, kw_only=True)
class HostEndpoint:
    """A device of the node on its pods' network: what the node sends to its own pods comes from this address."""

    name: str
    address: str


@dataclass(frozen=True, kw_only=True)
class NodeRoutes:
    """All the pod routing of one node; replaces what was there before."""

    own_blocks: tuple[str, ...]
    own_protocol: int = 80
    """Who laid the blackholes that keep what no pod has from leaving."""
    remote_blocks: tuple[TunnelRoute, ...] = ()
    direct: tuple[DirectRoute, ...] = ()
    by_ipip: tuple[str, ...] = ()
    """Networks that the device of IPIP is left to lead to, of a cluster that had IPIP before."""
    host_endpoint: HostEndpoint | None = None
    pools: tuple[str, ...] = ()
    """All IP pools: traffic from a pod to an address outside them is source-NATed to the node when ``nat_outgoing``."""
    nat_outgoing: bool = True


@dataclass(frozen=True, kw_only=True)
class PodPort:
    """How a pod's ``eth0`` is wired to its node."""

    gateway: str = "169.254.1.1"
    """Where the pod's default route leads; nobody needs to have the address."""
    mtu: int = 1450
    mac: str | None = None
    """The pod's own; None: one by its address."""
    initial: Literal["closed", "open"] = "closed"
    """Until policy is programmed: what Calico's plugin lets it, or anything."""


@dataclass(frozen=True, kw_only=True)
class PodSpec:
    """One pod sandbox: a network namespace with ``eth0``, wired to its node by a veth."""

    id: str
    """Unique for the lab's lifetime (the pod's uid)."""
    node: str
    name: str
    namespace: str
    address: str | None
    """None: the pod uses its node's network namespace (hostNetwork, HostProcess)."""
    port: PodPort = PodPort()
    hostname: str = ""
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    resolver_options: tuple[str, ...] = ("ndots:5",)
    """As in resolv.conf."""
    etc_hosts: str = ""
    """The content of its hosts file; empty: it has its own name alone."""


@dataclass(frozen=True, kw_only=True)
class FabricRoute:
    """A network of pods that the underlay's router leads to a node."""

    cidr: str
    node: str


@dataclass(frozen=True, kw_only=True)
class FabricTable:
    """What the underlay knows of pods; replaces what was there before.

    Without routes, and where all nodes stand in one subnet, it is no router at all.
    """

    routes: tuple[FabricRoute, ...] = ()
    source_check: tuple[str, ...] = ()
    """Nodes from which the underlay takes only what has the node's own address, or one that is routed to it."""


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One ready endpoint of a service port."""

    address: str
    port: int


@dataclass(frozen=True, kw_only=True)
class ServicePort:
    """One port of a Service as kube-proxy programs it."""

    name: str
    """``namespace/service:port``, for reading rule sets."""
    protocol: Literal["tcp", "udp"]
    cluster_ip: str | None
    port: int
    node_port: int | None
    backends: tuple[Backend, ...]
    node_port_keeps_client: bool = False
    """What comes in by the NodePort keeps its source (externalTrafficPolicy Local; on Windows with DSR only)."""
    external_ips: tuple[str, ...] = ()
    """More addresses at which it is served on ``port``; what comes in by them is treated as by the NodePort."""
    sticky: int | None = None
    """Seconds for which a client stays with its backend after its last connection; 0: as long as the backends stay the
    same; None: each connection may get another one."""
    unready: tuple[Backend, ...] = ()
    """Backends that are not ready, which no connection may get to; nothing but a fault reads them."""


@dataclass(frozen=True, kw_only=True)
class ServiceTable:
    """All services of one node; replaces what was there before."""

    ports: tuple[ServicePort, ...]
    snat_local_pods_to: str | None = None
    """Windows without DSR: the source that pods of this node get on their way through a ClusterIP to a pod (to another
    address it is the node's); None keeps the pod's."""
    snat_node_ports_to: str | None = None
    """Windows: the source of what comes in by a NodePort, on its way to a pod; None: the node's, by masquerading."""
    host_ports: tuple[ServicePort, ...] = ()
    """Ports of this node that lead to one of its own pods (portmap): by a NodePort or an address, to one backend."""
    flows_stay: bool = False
    """Flows of datagrams to endpoints that are gone are left as they are."""


@dataclass(frozen=True, kw_only=True)
class Match:
    """What a rule matches; every given criterion must hold, an empty one always does.

    ``*_nets`` are any-of, ``*_sets`` are all-of (each an IP set's name), ports are inclusive ranges, any-of.
    ``*_ip_port_sets`` hold ``address,protocol,port`` members (named ports, service rules), all-of.
    """

    protocol: str | None = None
    """``tcp udp icmp sctp udplite`` or a number as text."""
    not_protocol: str | None = None
    src_nets: tuple[str, ...] = ()
    not_src_nets: tuple[str, ...] = ()
    dst_nets: tuple[str, ...] = ()
    not_dst_nets: tuple[str, ...] = ()
    src_sets: tuple[str, ...] = ()
    not_src_sets: tuple[str, ...] = ()
    dst_sets: tuple[str, ...] = ()
    not_dst_sets: tuple[str, ...] = ()
    src_ports: tuple[tuple[int, int], ...] = ()
    not_src_ports: tuple[tuple[int, int], ...] = ()
    dst_ports: tuple[tuple[int, int], ...] = ()
    not_dst_ports: tuple[tuple[int, int], ...] = ()
    src_ip_port_sets: tuple[str, ...] = ()
    not_src_ip_port_sets: tuple[str, ...] = ()
    dst_ip_port_sets: tuple[str, ...] = ()
    not_dst_ip_port_sets: tuple[str, ...] = ()
    icmp_type: int | None = None
    icmp_code: int | None = None
    not_icmp_type: int | None = None
    not_icmp_code: int | None = None
    """Together with the type, which is then not matched when both are these."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule of a policy."""

    action: Literal["allow", "deny", "pass", "log"]
    match: Match = Match()
    comment: str = ""
    """Where it comes from: ``kind namespace/name rule N``."""


@dataclass(frozen=True, kw_only=True)
class Tier:
    """The rules of one tier that apply to an endpoint in one direction, in order, and what happens at its end."""

    name: str
    rules: tuple[Rule, ...]
    end: Literal["deny", "pass"] = "deny"


@dataclass(frozen=True, kw_only=True)
class Acl:
    """One entry of a Windows endpoint's ACL list.  Empty networks and ports: any."""

    action: Literal["Allow", "Block"]
    direction: Literal["In", "Out"]
    priority: int
    """Lower ones are asked first, the first that matches decides."""
    protocol: int = 256
    """256: any."""
    local: tuple[str, ...] = ()
    remote: tuple[str, ...] = ()
    local_ports: tuple[tuple[int, int], ...] = ()
    remote_ports: tuple[tuple[int, int], ...] = ()
    id: str = ""
    rule_type: Literal["Switch", "Host"] = "Switch"
    """``Host``: for the host's firewall, decides nothing about the endpoint's packets."""


@dataclass(frozen=True, kw_only=True)
class EndpointProgram:
    """The whole policy of one pod.  No tier in a direction: that direction is allowed (its profile allows)."""

    ingress: tuple[Tier, ...] = ()
    egress: tuple[Tier, ...] = ()
    acls: tuple[Acl, ...] = ()
    """On Windows, in the place of tiers: the ACL list.  What no entry of a direction matches is blocked; a direction
    without entries is open."""

    def named_sets(self) -> frozenset[str]:
        """Every IP set that a rule names."""
        return frozenset(
            name
            for tier in (*self.ingress, *self.egress)
            for rule in tier.rules
            for names in (
                rule.match.src_sets,
                rule.match.not_src_sets,
                rule.match.dst_sets,
                rule.match.not_dst_sets,
                rule.match.src_ip_port_sets,
                rule.match.not_src_ip_port_sets,
                rule.match.dst_ip_port_sets,
                rule.match.not_dst_ip_port_sets,
            )
            for name in names
        )


@dataclass(frozen=True, kw_only=True)
class PolicyUpdate:
    """One atomic change of a node's policy; what is not named stays as it is."""

    sets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name to all members (addresses, networks, or ``address,protocol,port``); created or replaced."""
    removed_sets: tuple[str, ...] = ()
    endpoints: dict[str, EndpointProgram] = field(default_factory=dict)
    """Pod id to its whole program."""
    removed_endpoints: tuple[str, ...] = ()
    reset: tuple[str, ...] = ()
    """Endpoints whose established TCP connections end with this change.  On Windows nodes: those whose ACL list HNS is
    given anew."""
    held: tuple[str, ...] = ()
    """Fault: endpoints whose rules stay as they are in the kernel."""


@dataclass(frozen=True, kw_only=True)
class Zone:
    """Everything the cluster's DNS answers; replaces what was there before.

    ``a``: full lower-case name without final dot to addresses; ``srv``: name to ``(port, target)``; ``ptr``: dotted
    quad to name.  Any other name under ``domain`` is NXDOMAIN, any other at all REFUSED (there is no upstream).
    """

    domain: str
    a: dict[str, tuple[str, ...]]
    srv: dict[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    ptr: dict[str, str] = field(default_factory=dict)
    cname: dict[str, str] = field(default_factory=dict)
    """Name to the name that it stands for, which may be one of another zone."""
    denied: tuple[str, ...] = ()
    """Names of ``a`` that are NXDOMAIN where any other record than A is asked for (fault)."""
    late: tuple[tuple[str, float], ...] = ()
    """Networks of clients, each with the seconds by which its questions are answered late (fault)."""
