# SPDX-License-Identifier: Apache-2.0
"""kube-proxy's work on one node: ``table ip kube``, changed by difference.

A ClusterIP or a NodePort is translated to a random ready endpoint, for pods and for the node
itself. The source address is kept, with the exceptions of kube-proxy in iptables mode. The node
masquerades traffic to a NodePort, traffic of an endpoint to itself, and all traffic that does not
come from a pod. On Windows, traffic to a NodePort gets ``snat_node_ports_to``. Without DSR, this
node's pods get ``snat_local_pods_to`` if the backend is a pod, otherwise the node's address. An
external address of a Service is treated as a NodePort. A service port without endpoints is refused:
a reset for TCP, port unreachable for UDP. A sticky port keeps each client with its backend: either
by a set of clients for each backend (like kube-proxy's nftables mode), or by a hash of the client's
address (like HNS). When a UDP port loses endpoints, the tracked flows to them are deleted, so that
a client such as a resolver does not keep a dead endpoint.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator

from hybridlab.dataplane.model import ServicePort, ServiceTable
from hybridlab.dataplane.table import Rules, SetContent, Table, TableChange
from hybridlab.kernel.conntrack import Connection, ConntrackSocket, datagrams
from hybridlab.kernel.nft import Nft

_MASQUERADE = "0x4000"
"""kube-proxy's packet mark; the connection mark stays free."""
TRANSLATED = "0x8000"
"""Packet mark on Windows. Before policy, a packet to a pod of this node gets the source that it
will have in the end; after policy it gets its own source back."""
_KEPT = "0x2000"
"""Packet mark of traffic to a NodePort that keeps its clients' addresses."""


def base_table(prefix: str, service_cidr: str) -> str:
    """Return the fixed part of the table; ``prefix``: the beginning of the names of pods'
    interfaces.

    Packets to an address of ``service_cidr`` that no Service has are dropped, as in kube-proxy's
    nftables mode. Otherwise their connection would be tracked without a translation for seconds.
    During this time, a client that gets the same port again would not reach a Service that was
    created meanwhile.
    """
    return f"""
table ip kube {{
  map svc {{ type ipv4_addr . inet_proto . inet_service : verdict; }}
  map nodeport {{ type inet_proto . inet_service : verdict; }}
  set pools {{ type ipv4_addr; flags interval; }}
  set hairpin {{ type ipv4_addr . ipv4_addr; }}
  set empty-svc {{ type ipv4_addr . inet_proto . inet_service; }}
  set empty-nodeport {{ type inet_proto . inet_service; }}
  chain services {{
    ip daddr . meta l4proto . th dport vmap @svc
    fib daddr type local meta l4proto . th dport vmap @nodeport
  }}
  chain sources {{
  }}
  chain node-port-sources {{
  }}
  chain sources-as-seen {{
  }}
  chain refuse {{
    meta l4proto tcp reject with tcp reset
    reject with icmp port-unreachable
  }}
  chain k_pre {{
    type nat hook prerouting priority dstnat; policy accept;
    jump services
  }}
  chain k_out {{
    type nat hook output priority -100; policy accept;
    jump services
  }}
  chain k_post {{
    type nat hook postrouting priority srcnat; policy accept;
    meta mark and {_KEPT} == {_KEPT} ct status dnat ip saddr . ip daddr @hairpin masquerade fully-random
    meta mark and {_KEPT} == {_KEPT} accept
    jump node-port-sources
    meta mark and {_MASQUERADE} == {_MASQUERADE} masquerade fully-random
    jump sources
    ct status dnat ip saddr . ip daddr @hairpin masquerade fully-random
  }}
  chain k_forward {{
    type filter hook forward priority -10; policy accept;
    ip daddr . meta l4proto . th dport @empty-svc goto refuse
    ip daddr {service_cidr} drop
  }}
  chain k_before_policy {{
    type filter hook forward priority filter - 1; policy accept;
    oifname "{prefix}*" ct state new ct status dnat jump sources-as-seen
  }}
  chain k_after_policy {{
    type filter hook forward priority filter + 1; policy accept;
    meta mark and {TRANSLATED} == {TRANSLATED} ip saddr set ct original ip saddr
  }}
  chain k_output {{
    type filter hook output priority -10; policy accept;
    ip daddr . meta l4proto . th dport @empty-svc goto refuse
    ip daddr {service_cidr} drop
    fib daddr type local meta l4proto . th dport @empty-nodeport goto refuse
  }}
  chain k_input {{
    type filter hook input priority -10; policy accept;
    fib daddr type local meta l4proto . th dport @empty-nodeport goto refuse
  }}
}}
"""


_SETS = {
    "pools": "type ipv4_addr; flags interval;",
    "hairpin": "type ipv4_addr . ipv4_addr;",
    "empty-svc": "type ipv4_addr . inet_proto . inet_service;",
    "empty-nodeport": "type inet_proto . inet_service;",
}


_SOURCES = ("sources", "node-port-sources", "sources-as-seen")


class Services:
    """The service table of a node."""

    def __init__(self, nft: Nft, conntrack: ConntrackSocket) -> None:
        self._table = Table(nft, "kube")
        self._table.adopt(chains=dict.fromkeys(_SOURCES, ()), sets=_SETS)
        self._conntrack = conntrack
        self._ports: dict[str, ServicePort] = {}
        self._pools: tuple[str, ...] = ()
        self._blocks: tuple[str, ...] = ()
        self._translation: tuple[str | None, str | None] = (None, None)

    def set(self, table: ServiceTable) -> None:
        """Replace all services in one transaction; then delete UDP flows to endpoints that are gone
        or were missing."""
        ports = {_chain_name(port): port for port in (*table.ports, *table.host_ports)}
        change = TableChange()
        for name, port in self._ports.items():
            _forget_port(change, name, port)
        for name, port in ports.items():
            _add_port(change, name, port)
        for name, port in self._ports.items():
            for entry in _entries(name, port):
                change.entries.setdefault(entry, None)
        change.sets |= _sets_of(ports.values())
        translation = (table.snat_local_pods_to, table.snat_node_ports_to)
        change.chains |= _translations(self._pools, self._blocks, *translation)
        self._table.apply(change)
        before = self._ports
        self._ports = ports
        self._translation = translation
        if not table.flows_stay:
            self._forget_flows(before)

    def set_pools(self, pools: tuple[str, ...], own_blocks: tuple[str, ...]) -> None:
        """Set the pods' networks, and this node's part of them. Traffic of other clients to a
        Service is masqueraded."""
        self._table.apply(
            TableChange(
                sets={"pools": _set("pools", pools)},
                chains=_translations(pools, own_blocks, *self._translation),
            )
        )
        self._pools = pools
        self._blocks = own_blocks

    def _forget_flows(self, before: dict[str, ServicePort]) -> None:
        lost = list(_with_stale_flows(before, self._ports))
        if not lost:
            return
        theirs = datagrams(
            {address for port, _ in lost for address in _addresses(port)},
            {port.node_port for port, _ in lost if port.node_port},
        )
        stale = [
            connection
            for connection in self._conntrack.entries(theirs)
            if connection.protocol == "udp"
            and any(_is_stale(connection, port, backends) for port, backends in lost)
        ]
        for connection in stale:
            self._conntrack.delete(connection)


_Ends = set[tuple[str, int]]
"""The addresses and ports of backends."""


def _with_stale_flows(
    before: dict[str, ServicePort], after: dict[str, ServicePort]
) -> Iterator[tuple[ServicePort, _Ends]]:
    """Yield the UDP ports that may have stale flows, each with the backends to which flows stay
    valid."""
    for name, port in before.items():
        left = after[name].backends if name in after else ()
        if port.protocol == "udp" and (name not in after or left != port.backends):
            yield port, {(backend.address, backend.port) for backend in left}
    for name, port in after.items():
        had_backends = name in before and before[name].backends
        if port.protocol == "udp" and port.backends and not had_backends:
            # Earlier flows were not translated, and would never be.
            yield port, set()


def _set(name: str, members: Iterable[str]) -> SetContent:
    return SetContent(_SETS[name], frozenset(members))


def _sets_of(ports: Collection[ServicePort]) -> dict[str, SetContent]:
    """Return the sets that follow from all service ports."""
    backends = {backend.address for port in ports for backend in port.backends}
    empty = [port for port in ports if not port.backends]
    return {
        "hairpin": _set("hairpin", (f"{address} . {address}" for address in backends)),
        "empty-svc": _set("empty-svc", (key for port in empty for key in _service_keys(port))),
        "empty-nodeport": _set(
            "empty-nodeport", (_node_port_key(port) for port in empty if port.node_port)
        ),
    }


def _is_stale(connection: Connection, port: ServicePort, backends: _Ends) -> bool:
    """Return whether this service port translated the flow to an endpoint that the port no longer
    has."""
    there = connection.original
    back = connection.reply
    by_cluster_ip = there.destination in _addresses(port) and there.destination_port == port.port
    by_node_port = port.node_port is not None and there.destination_port == port.node_port
    translated = (back.source, back.source_port) != (there.destination, there.destination_port)
    if by_node_port and not by_cluster_ip and not translated:
        return False
    return (by_cluster_ip or by_node_port) and (back.source, back.source_port) not in backends


def _forget_port(change: TableChange, name: str, port: ServicePort) -> None:
    """Remove everything of a port; entries that it still needs are added afterwards."""
    change.chains |= {f"svc-{name}": None, f"np-{name}": None}
    for kept in _kept_by(name, port):
        change.chains[kept] = change.sets[kept] = None


def _kept_by(name: str, port: ServicePort) -> list[str]:
    """Return the names of the chains (and client sets) of a port's backends, if clients stay with
    their backend for a time."""
    if not port.sticky:
        return []
    return [
        f"to-{name}-{b.address.replace('.', '-')}-{b.port}-{port.sticky}" for b in port.backends
    ]


def _add_port(change: TableChange, name: str, port: ServicePort) -> None:
    comment = f'comment "{port.name[:100]}"'
    kept = _kept_by(name, port)
    if not port.backends:
        return
    choices = ", ".join(f"{i} : {b.address} . {b.port}" for i, b in enumerate(port.backends))
    by = f"{'numgen random' if port.sticky is None else 'jhash ip saddr'} mod {len(port.backends)}"
    rules = [f"meta l4proto {port.protocol} dnat ip to {by} map {{ {choices} }} {comment}"]
    if kept:
        verdicts = ", ".join(f"{i} : goto {chain}" for i, chain in enumerate(kept))
        rules = [f"ip saddr @{chain} goto {chain}" for chain in kept]
        rules.append(f"numgen random mod {len(kept)} vmap {{ {verdicts} }} {comment}")
    for chain, backend in zip(kept, port.backends, strict=False):
        change.sets[chain] = SetContent(
            f"type ipv4_addr; flags dynamic,timeout; timeout {port.sticky}s;", frozenset()
        )
        to = f"meta l4proto {port.protocol} dnat ip to {backend.address}:{backend.port}"
        change.chains[chain] = (f"update @{chain} {{ ip saddr }}", to)
    change.chains[f"svc-{name}"] = tuple(rules)
    if port.node_port or port.external_ips:
        mark = _KEPT if port.node_port_keeps_client else _MASQUERADE
        change.chains[f"np-{name}"] = (f"meta mark set meta mark or {mark}", f"goto svc-{name}")
    change.entries |= _entries(name, port)


def _entries(name: str, port: ServicePort) -> dict[tuple[str, str], str | None]:
    entries: dict[tuple[str, str], str | None] = {}
    for address, key in zip(_addresses(port), _service_keys(port), strict=True):
        entries[("svc", key)] = f"goto {'svc' if address == port.cluster_ip else 'np'}-{name}"
    if port.node_port:
        entries[("nodeport", _node_port_key(port))] = f"goto np-{name}"
    return entries


def _addresses(port: ServicePort) -> list[str]:
    return [*([port.cluster_ip] if port.cluster_ip else ()), *port.external_ips]


def _service_keys(port: ServicePort) -> list[str]:
    return [f"{address} . {port.protocol} . {port.port}" for address in _addresses(port)]


def _node_port_key(port: ServicePort) -> str:
    return f"{port.protocol} . {port.node_port}"


def _chain_name(port: ServicePort) -> str:
    """Return a readable and unique name for a chain. Two Services may differ only in characters
    that nft refuses."""
    identity = f"{port.name}/{port.protocol}"
    readable = re.sub(r"[^A-Za-z0-9-]", "-", port.name)[:60]
    return f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def _translations(
    pools: tuple[str, ...], blocks: tuple[str, ...], local_pods: str | None, node_ports: str | None
) -> dict[str, Rules | None]:
    """Return the source translations, and the early translations for the policy of pods on this
    node.

    In the kernel source translation comes after policy, but Windows' ACLs are at the pod's port of
    the virtual switch and match the packet as the pod sends it. Therefore the source is set before
    policy and restored after it.
    """
    by_node_port = f"meta mark and {_MASQUERADE} == {_MASQUERADE}"
    sources = []
    node_port_sources = []
    as_seen = []
    if local_pods is not None and blocks:
        local = f"ip saddr {{ {', '.join(blocks)} }}"
        sources += [
            f"{local} ct status dnat ip daddr @pools snat to {local_pods}",
            f"{local} ct status dnat masquerade fully-random",
        ]
        as_seen.append(
            f"{local} meta mark set meta mark or {TRANSLATED} ip saddr set {local_pods} return"
        )
    if node_ports is not None:
        node_port_sources.append(f"{by_node_port} ip daddr @pools snat to {node_ports}")
        as_seen.insert(
            0,
            f"{by_node_port} meta mark set meta mark or {TRANSLATED} ip saddr set {node_ports} return",
        )
    if pools:
        sources.append("ct status dnat ip saddr != @pools masquerade fully-random")
    return {
        "sources": tuple(sources),
        "node-port-sources": tuple(node_port_sources),
        "sources-as-seen": tuple(as_seen),
    }
