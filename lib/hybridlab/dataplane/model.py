# SPDX-License-Identifier: Apache-2.0
"""The commands to the data plane: plain frozen dataclasses that are sent through the socket from
the cluster to labd.

Every dataclass is sent as JSON (``kernel.shapes``). Addresses are dotted quads, networks are
``a.b.c.d/n``, MACs are lower-case with colons, sizes are bytes. Nothing here depends on Kubernetes.
"""

from dataclasses import dataclass, field
from typing import Literal

OS = Literal["linux", "windows"]
Entry = Literal["route", "neighbour", "forwarding"]
"""The kernel's entries for another node's block: the route through the tunnel, the neighbour entry
with the tunnel's MAC address, and the forwarding entry from this MAC address to the node."""


@dataclass(frozen=True, kw_only=True)
class Tunnel:
    """The device that wraps packets to other nodes' pods in UDP packets: static, without
    learning.
    """

    device: str
    """The device's name."""
    identifier: int
    """The number that marks the packets of this network; both ends must use the same number."""
    port: int
    mtu: int
    address: str
    mac: str


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """A machine: a network namespace with ``eth0`` on the underlay fabric."""

    name: str
    os: OS
    address: str
    """Underlay address."""
    prefix_length: int
    underlay_mtu: int = 1500
    tunnel: Tunnel | None = None
    pod_prefix: str = "cali"
    """The beginning of the names of the interfaces of this node's pods."""
    service_cidr: str = "10.96.0.0/12"
    """The addresses that Services get."""
    reset: Literal["remote", "both"] = "remote"
    """Windows: which end gets a TCP reset when a pod's ACL list is replaced."""


@dataclass(frozen=True, kw_only=True)
class TunnelRoute:
    """A network on another node that is reached through the tunnel, with its route, neighbour and
    fdb entry."""

    cidr: str
    node_address: str
    tunnel_address: str
    tunnel_mac: str
    identifier: int | None = None
    """The VNI of packets to this network (HNS: IsolationId of the remote subnet route); None: the
    device's VNI."""
    lacks: tuple[Entry, ...] = ()
    """Fault: the entries that are not set."""


@dataclass(frozen=True, kw_only=True)
class DirectRoute:
    """A network on another node that is reached by that node's own address, which must be on this
    underlay."""

    cidr: str
    via: str
    protocol: int
    """The routing protocol, by the number of ``ip route``: 12 BIRD, 4 static, 3 boot, 80 Felix."""


@dataclass(frozen=True, kw_only=True)
class HostEndpoint:
    """A device of the node on its pods' network: the source address of the node's traffic to its
    own pods.
    """

    name: str
    address: str


@dataclass(frozen=True, kw_only=True)
class NodeRoutes:
    """All pod routing of a node; replaces the earlier routing."""

    own_blocks: tuple[str, ...]
    own_protocol: int = 80
    """The routing protocol of the blackholes that keep packets to addresses without a pod on the
    node."""
    remote_blocks: tuple[TunnelRoute, ...] = ()
    direct: tuple[DirectRoute, ...] = ()
    by_ipip: tuple[str, ...] = ()
    """Networks with a leftover route through the IPIP device, in a cluster that used IPIP before.
    """
    host_endpoint: HostEndpoint | None = None
    pools: tuple[str, ...] = ()
    """All IP pools: traffic from a pod to an address outside them is source-NATed to the node's
    address if ``nat_outgoing`` is set."""
    unmasqueraded: tuple[str, ...] = ()
    """Networks outside the pools to which pods nevertheless send with their own addresses."""
    nat_outgoing: bool = True


@dataclass(frozen=True, kw_only=True)
class PodPort:
    """The wiring of a pod's ``eth0`` to its node."""

    gateway: str = "169.254.1.1"
    """The gateway of the pod's default route; no device needs to have the address."""
    mtu: int = 1450
    mac: str | None = None
    """The pod's own MAC address; None: it is derived from the pod's address."""
    initial: Literal["closed", "open"] = "closed"
    """The pod's traffic until its policy is programmed. ``closed``: what Calico's plugin allows;
    ``open``: everything."""


@dataclass(frozen=True, kw_only=True)
class PodSpec:
    """A pod sandbox: a network namespace with ``eth0``, wired to its node by a veth."""

    id: str
    """Unique for the lab's lifetime (the pod's uid)."""
    node: str
    name: str
    namespace: str
    address: str | None
    """The pod's address; None: the pod uses its node's network namespace (hostNetwork,
    HostProcess)."""
    port: PodPort = PodPort()
    hostname: str = ""
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    resolver_options: tuple[str, ...] = ("ndots:5",)
    """Options in the format of resolv.conf."""
    etc_hosts: str = ""
    """The content of the pod's hosts file; empty: the file has only the pod's own name."""


@dataclass(frozen=True, kw_only=True)
class FabricRoute:
    """A network of pods that the underlay's router leads to a node."""

    cidr: str
    node: str


@dataclass(frozen=True, kw_only=True)
class FabricTable:
    """The pod routes of the underlay; replaces the earlier table. Without routes, and with all
    nodes in one subnet, the underlay is no router.
    """

    routes: tuple[FabricRoute, ...] = ()
    source_check: tuple[str, ...] = ()
    """Nodes from which the underlay takes only packets with the node's own address, or an address
    routed to it."""


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A ready endpoint of a service port."""

    address: str
    port: int


@dataclass(frozen=True, kw_only=True)
class ServicePort:
    """A port of a Service as kube-proxy programs it."""

    name: str
    """``namespace/service:port``, for people who read rule sets."""
    protocol: Literal["tcp", "udp"]
    cluster_ip: str | None
    port: int
    node_port: int | None
    backends: tuple[Backend, ...]
    node_port_keeps_client: bool = False
    """Traffic to the NodePort keeps its source address (externalTrafficPolicy Local; on Windows
    with DSR only)."""
    external_ips: tuple[str, ...] = ()
    """Further addresses that serve ``port``; traffic to them is treated as traffic to the NodePort.
    """
    sticky: int | None = None
    """Seconds for which a client stays with its backend after its last connection; 0: as long as
    the backends stay the same; None: each connection may get another backend."""
    unready: tuple[Backend, ...] = ()
    """Backends that are not ready, to which no connection may go; only a fault uses them."""
    elsewhere: tuple[Backend, ...] = ()
    """Backends of other nodes that a traffic policy of the Service leaves out; only a fault uses
    them."""


@dataclass(frozen=True, kw_only=True)
class ServiceTable:
    """All services of a node; replaces the earlier table."""

    ports: tuple[ServicePort, ...]
    snat_local_pods_to: str | None = None
    """Windows without DSR: the source address that pods of this node get when they connect through
    a ClusterIP to a pod. When they connect to another target, they get the node's address. None:
    pods keep their own address."""
    snat_node_ports_to: str | None = None
    """Windows: the source address that traffic to a NodePort gets on its way to a pod; None: the
    node's address, by masquerading."""
    host_ports: tuple[ServicePort, ...] = ()
    """Ports of this node that lead to its own pods (portmap), each from a NodePort or an address to
    one backend."""
    flows_stay: bool = False
    """Tracked flows of datagrams to endpoints that are gone are not deleted."""


@dataclass(frozen=True, kw_only=True)
class Match:
    """The criteria of a rule; every given criterion must hold, and an empty criterion always holds.

    For ``*_nets`` any of the networks is enough; for ``*_sets``, IP sets by name, all must contain
    the address; ports are inclusive ranges, of which any is enough. ``*_ip_port_sets`` have
    ``address,protocol,port`` members (named ports, service rules), and all must match.
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
    """Together with the type: a packet with exactly this type and code is not matched."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule of a policy."""

    action: Literal["allow", "deny", "pass", "log"]
    match: Match = Match()
    comment: str = ""
    """The origin of the rule: ``kind namespace/name rule N``."""


@dataclass(frozen=True, kw_only=True)
class Tier:
    """The rules of a tier that apply to an endpoint in a direction, in order, and the decision at
    its end."""

    name: str
    rules: tuple[Rule, ...]
    end: Literal["deny", "pass"] = "deny"


@dataclass(frozen=True, kw_only=True)
class Acl:
    """An entry of a Windows endpoint's ACL list.  Empty networks or ports match any value."""

    action: Literal["Allow", "Block"]
    direction: Literal["In", "Out"]
    priority: int
    """Entries with lower numbers come first; the first entry that matches decides."""
    protocol: int = 256
    """256: any protocol."""
    local: tuple[str, ...] = ()
    remote: tuple[str, ...] = ()
    local_ports: tuple[tuple[int, int], ...] = ()
    remote_ports: tuple[tuple[int, int], ...] = ()
    id: str = ""
    rule_type: Literal["Switch", "Host"] = "Switch"
    """``Host``: the entry is for the host's firewall, and decides nothing about the endpoint's
    packets."""


@dataclass(frozen=True, kw_only=True)
class EndpointProgram:
    """The whole policy of a pod. A direction without tiers is open, since Calico's profile allows
    its packets."""

    ingress: tuple[Tier, ...] = ()
    egress: tuple[Tier, ...] = ()
    acls: tuple[Acl, ...] = ()
    """On Windows, in place of tiers: the ACL list. A packet that no entry of a direction matches is
    blocked; a direction without entries is open."""

    def named_sets(self) -> frozenset[str]:
        """Return every IP set that a rule names."""
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
    """An atomic change of a node's policy; everything that the update does not mention stays."""

    sets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """All members of each set, by the set's name (addresses, networks, or
    ``address,protocol,port``). The sets are created or replaced."""
    removed_sets: tuple[str, ...] = ()
    endpoints: dict[str, EndpointProgram] = field(default_factory=dict)
    """The whole program of each pod, by the pod's id."""
    removed_endpoints: tuple[str, ...] = ()
    reset: tuple[str, ...] = ()
    """Endpoints that lose their established TCP connections with this change. On Windows nodes,
    these are the endpoints whose ACL list is written to HNS again."""
    held: tuple[str, ...] = ()
    """Fault: endpoints whose rules stay as they are in the kernel."""


@dataclass(frozen=True, kw_only=True)
class Zone:
    """Everything that the cluster's DNS answers; replaces the earlier zone.

    ``a``: maps each full lower-case name without final dot to addresses; ``srv``: maps each name to
    ``(port, target)``; ``ptr``: maps each dotted quad to a name. Other names under ``domain`` are
    NXDOMAIN; so are all names elsewhere, but not authoritatively (there is no upstream).
    """

    domain: str
    a: dict[str, tuple[str, ...]]
    srv: dict[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    ptr: dict[str, str] = field(default_factory=dict)
    cname: dict[str, str] = field(default_factory=dict)
    """Aliases: the name for which each name stands, which may be in another zone."""
    denied: tuple[str, ...] = ()
    """Names of ``a`` for which queries of any other type than A are answered NXDOMAIN (fault)."""
    late: tuple[tuple[str, float], ...] = ()
    """Networks of clients, each with the seconds by which their queries are answered late (fault).
    """
