"""kube-proxy's work on one node: ``table ip kube``, changed by difference.

A ClusterIP or a NodePort is translated to a random ready endpoint, for pods and for the node itself.  The source is
kept, except (as kube-proxy does in iptables mode): traffic to a NodePort, an endpoint that reaches itself, and
whatever does not come from a pod get the node's address by masquerading; on Windows without DSR this node's pods get
``snat_local_pods_to``. A service port without endpoints is refused: a reset for TCP, port unreachable for UDP.  When
a UDP port loses endpoints its tracked flows to them are forgotten, so that a client (a resolver, say) does not stick
to a dead one.
"""

from __future__ import annotations

import hashlib
import re

from hybridlab.dataplane.model import ServicePort, ServiceTable
from hybridlab.dataplane.table import Change, Rules, SetContent, Table
from hybridlab.kernel.conntrack import Connection, ConntrackSocket
from hybridlab.kernel.nft import Nft

_MASQUERADE = "0x4000"
"""kube-proxy's packet mark; the connection mark stays free."""

BASE_TABLE = f"""
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
    meta mark and {_MASQUERADE} == {_MASQUERADE} masquerade fully-random
    ct status dnat ip saddr . ip daddr @hairpin masquerade fully-random
    jump sources
  }}
  chain k_forward {{
    type filter hook forward priority -10; policy accept;
    ip daddr . meta l4proto . th dport @empty-svc goto refuse
  }}
  chain k_output {{
    type filter hook output priority -10; policy accept;
    ip daddr . meta l4proto . th dport @empty-svc goto refuse
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


class Services:
    """The service table of one node."""

    def __init__(self, nft: Nft, conntrack: ConntrackSocket) -> None:
        self._table = Table(nft, "kube")
        self._table.adopt(chains={"sources": ()}, sets=_SETS)
        self._conntrack = conntrack
        self._ports: dict[str, ServicePort] = {}
        self._pools: tuple[str, ...] = ()
        self._snat: tuple[str, tuple[str, ...]] | None = None

    def set(self, table: ServiceTable, own_blocks: tuple[str, ...]) -> None:
        """Replace all services in one transaction; then forget UDP flows to endpoints that are gone."""
        ports = {_chain_name(port): port for port in table.ports}
        change = Change()
        change.chains |= {f"svc-{name}": None for name in self._ports if name not in ports}
        change.chains |= {f"np-{name}": None for name in self._ports if name not in ports}
        for name, port in ports.items():
            _add_port(change, name, port)
        for name, port in self._ports.items():
            for entry in _entries(name, port):
                change.entries.setdefault(entry, None)
        backends = {backend.address for port in ports.values() for backend in port.backends}
        change.sets["hairpin"] = SetContent(_SETS["hairpin"], frozenset(f"{a} . {a}" for a in backends))
        empty = [port for port in ports.values() if not port.backends]
        change.sets["empty-svc"] = SetContent(
            _SETS["empty-svc"], frozenset(_service_key(p) for p in empty if p.cluster_ip)
        )
        change.sets["empty-nodeport"] = SetContent(
            _SETS["empty-nodeport"], frozenset(_node_port_key(p) for p in empty if p.node_port)
        )
        snat = (table.snat_local_pods_to, own_blocks) if table.snat_local_pods_to else None
        change.chains["sources"] = _source_rules(self._pools, snat)
        self._table.apply(change)
        before, self._ports, self._snat = self._ports, ports, snat
        self._forget_flows(before)

    def set_pools(self, pools: tuple[str, ...]) -> None:
        """The pods' networks: whatever else uses a service is masqueraded."""
        self._table.apply(
            Change(
                sets={"pools": SetContent(_SETS["pools"], frozenset(pools))},
                chains={"sources": _source_rules(pools, self._snat)},
            )
        )
        self._pools = pools

    def _forget_flows(self, before: dict[str, ServicePort]) -> None:
        lost = [
            (port, {(b.address, b.port) for b in self._ports[name].backends} if name in self._ports else set())
            for name, port in before.items()
            if port.protocol == "udp" and (name not in self._ports or self._ports[name].backends != port.backends)
        ]
        if not lost:
            return
        stale = [
            connection
            for connection in self._conntrack.entries()
            if connection.protocol == "udp" and any(_is_stale(connection, port, backends) for port, backends in lost)
        ]
        for connection in stale:
            self._conntrack.delete(connection)


def _is_stale(connection: Connection, port: ServicePort, backends: set[tuple[str, int]]) -> bool:
    """The flow was translated by this service port, to an endpoint that it no longer has."""
    there, back = connection.original, connection.reply
    by_cluster_ip = (there.destination, there.destination_port) == (port.cluster_ip, port.port)
    by_node_port = port.node_port is not None and there.destination_port == port.node_port
    translated = (back.source, back.source_port) != (there.destination, there.destination_port)
    if by_node_port and not by_cluster_ip and not translated:
        return False
    return (by_cluster_ip or by_node_port) and (back.source, back.source_port) not in backends


def _add_port(change: Change, name: str, port: ServicePort) -> None:
    comment = f'comment "{port.name[:100]}"'
    if not port.backends:
        change.chains |= {f"svc-{name}": None, f"np-{name}": None}
        return
    choices = ", ".join(f"{i} : {b.address} . {b.port}" for i, b in enumerate(port.backends))
    choose = f"meta l4proto {port.protocol} dnat ip to numgen random mod {len(port.backends)} map {{ {choices} }}"
    change.chains[f"svc-{name}"] = (f"{choose} {comment}",)
    change.chains[f"np-{name}"] = None
    if port.node_port:
        change.chains[f"np-{name}"] = (f"meta mark set meta mark or {_MASQUERADE}", f"goto svc-{name}")
    change.entries |= _entries(name, port)


def _entries(name: str, port: ServicePort) -> dict[tuple[str, str], str | None]:
    entries: dict[tuple[str, str], str | None] = {}
    if port.cluster_ip:
        entries[("svc", _service_key(port))] = f"goto svc-{name}"
    if port.node_port:
        entries[("nodeport", _node_port_key(port))] = f"goto np-{name}"
    return entries


def _service_key(port: ServicePort) -> str:
    return f"{port.cluster_ip} . {port.protocol} . {port.port}"


def _node_port_key(port: ServicePort) -> str:
    return f"{port.protocol} . {port.node_port}"


def _chain_name(port: ServicePort) -> str:
    """Readable and unique: two services may differ only in characters that nft does not take."""
    identity = f"{port.name}/{port.protocol}"
    readable = re.sub(r"[^A-Za-z0-9-]", "-", port.name)[:60]
    return f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def _source_rules(pools: tuple[str, ...], snat: tuple[str, tuple[str, ...]] | None) -> Rules:
    rules = []
    if snat is not None and snat[1]:
        address, blocks = snat
        rules.append(f"ip saddr {{ {', '.join(blocks)} }} ct status dnat snat to {address}")
    if pools:
        rules.append("ct status dnat ip saddr != @pools masquerade fully-random")
    return tuple(rules)
