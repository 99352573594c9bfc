# SPDX-License-Identifier: Apache-2.0
"""Each machine of a profile: name, underlay address, build; and the cluster's well-known addresses.

Only this module computes values that follow from the profile alone, and on which several components
(nodes, data plane, Calico, DNS) must agree.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hybridlab.profiles.check import node_names
from hybridlab.profiles.model import OS, NodeGroup, Profile

FIRST_HOST = 10
"""Offset of the first machine's address in ``network.node_cidr``; the addresses below it belong to
the fabric."""

MAX_NAMESERVERS = 3
"""The maximum number of nameservers of a resolver; a kubelet omits further nameservers."""
_HOSTS_HEAD = (
    "# Kubernetes-managed hosts file.",
    "127.0.0.1\tlocalhost",
    "::1\tlocalhost ip6-localhost ip6-loopback",
    "fe00::0\tip6-localnet",
    "fe00::0\tip6-mcastprefix",
    "fe00::1\tip6-allnodes",
    "fe00::2\tip6-allrouters",
)
_NODE_HOSTS_HEAD = ("# Kubernetes-managed hosts file (host network).", "127.0.0.1\tlocalhost")

API_PORT = 6443
"""Port of the API server in the kubernetes Service's endpoint."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine of the cluster."""

    name: str
    index: int
    """Position among all machines of the profile, from 0."""
    group: NodeGroup
    address: str
    """The address in the underlay."""
    prefix_length: int

    @property
    def os(self) -> OS:
        return self.group.os

    @property
    def subnet(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Interface(f"{self.address}/{self.prefix_length}").network

    @property
    def build(self) -> int | None:
        """Return the Windows build number, such as ``20348``; None on Linux."""
        return int(self.group.windows_build.split(".")[2]) if self.group.windows_build else None


def machines(profile: Profile) -> tuple[Machine, ...]:
    """Return all machines in the profile's order."""
    named = [
        (group, name, ipaddress.IPv4Network(group.node_cidr or profile.network.node_cidr))
        for group in profile.nodes
        for name in node_names(group)
    ]
    return tuple(
        Machine(
            name=name,
            index=index,
            group=group,
            address=str(network[FIRST_HOST + index]),
            prefix_length=network.prefixlen,
        )
        for index, (group, name, network) in enumerate(named)
    )


def pod_cidr(machine: Machine, profile: Profile) -> str:
    """Return the /24 that kube-controller-manager assigns to a node; empty if no /24 is left. Only
    host-local uses it."""
    pool = ipaddress.IPv4Network(profile.network.pod_cidr)
    start = int(pool.network_address) + machine.index * 256
    if pool.prefixlen > 24 or start > int(pool.broadcast_address):
        return ""
    return f"{ipaddress.IPv4Address(start)}/24"


def enables_dsr(profile: Profile, machine: Machine) -> bool:
    """Return whether kube-proxy of this Windows node is configured for direct server return, which
    the node's build may not support."""
    own = machine.group.windows_dsr
    return profile.kube_proxy.windows_dsr if own is None else own


def control_plane(profile: Profile) -> Machine:
    """Return the first control-plane machine, on which API server and etcd appear to run."""
    return next(machine for machine in machines(profile) if machine.group.control_plane)


def dns_address(profile: Profile) -> str:
    """Return the ClusterIP of ``kube-system/kube-dns``. It is the tenth address of the service
    range, as with kubeadm."""
    return str(ipaddress.IPv4Network(profile.network.service_cidr)[10])


@dataclass(frozen=True, kw_only=True)
class PodDns:
    """The settings of a pod's resolver."""

    nameservers: tuple[str, ...]
    searches: tuple[str, ...]
    options: tuple[str, ...] = ()
    left_out: bool = False
    """True if there are more nameservers than a resolver uses."""


def resolver(profile: Profile, pod: Mapping[str, Any]) -> PodDns:
    """Return the settings of a pod's resolver, from ``dnsPolicy`` and ``dnsConfig``, as a kubelet
    does (network/dns/dns.go).

    The lab has no resolver outside the cluster. Policy ``Default`` (and ``ClusterFirst`` on the
    host network, which means the same) therefore gives the pod only the content of its
    ``dnsConfig``, which may be empty.
    """
    spec = pod["spec"]
    policy = spec.get("dnsPolicy", "ClusterFirst")
    nameservers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    if policy == "ClusterFirstWithHostNet" or (
        policy == "ClusterFirst" and not spec.get("hostNetwork")
    ):
        domain = profile.network.dns_domain
        nameservers.append(dns_address(profile))
        options["ndots"] = "5"
        searches += [
            f"{pod['metadata'].get('namespace', 'default')}.svc.{domain}",
            f"svc.{domain}",
            domain,
        ]
    config = spec.get("dnsConfig") or {}
    nameservers += [
        address for address in config.get("nameservers", ()) if address not in nameservers
    ]
    searches += [name for name in config.get("searches", ()) if name not in searches]
    options |= {option["name"]: option.get("value") or "" for option in config.get("options", ())}
    return PodDns(
        nameservers=tuple(nameservers[:MAX_NAMESERVERS]),
        searches=tuple(searches),
        options=tuple(f"{name}:{value}" if value else name for name, value in options.items()),
        left_out=len(nameservers) > MAX_NAMESERVERS,
    )


def etc_hosts(profile: Profile, pod: Mapping[str, Any], address: str, node: str = "") -> str:
    """Return the hosts file that a kubelet writes for a pod (kubelet_pods.go); ``node``: the node's
    name, if the pod uses the host network."""
    spec: Mapping[str, Any] = pod["spec"]
    name = node or spec.get("hostname") or pod["metadata"]["name"]
    below = (
        spec.get("subdomain", ""),
        pod["metadata"].get("namespace", "default"),
        "svc",
        profile.network.dns_domain,
    )
    own = ".".join((name, *below)) + f"\t{name}" if below[0] and not node else name
    lines = [*(_NODE_HOSTS_HEAD if node else _HOSTS_HEAD), f"{address}\t{own}"]
    if aliases := spec.get("hostAliases"):
        lines += ["", "# Entries added by HostAliases."]
        lines += ["\t".join([each["ip"], *each.get("hostnames", ())]) for each in aliases]
    return "\n".join([*lines, ""])
