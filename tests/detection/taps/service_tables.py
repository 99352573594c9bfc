# SPDX-License-Identifier: Apache-2.0
"""Faults of kube-proxies' tables: wrong backends of Services, or no NodePorts."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby, islice

from hybridlab.dataplane.model import Backend, ServicePort, ServiceTable
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE_OR_ALL, Entries, Fault, FaultType, Types

TYPES = Types()
Table = ServiceTable
Way = Callable[[ServicePort, Table, Table | None], ServicePort]
"""Maps a port of a Service, the node's table and the table that was served before to the port that
replaces it."""


def _backends(which: Callable[[ServicePort], Iterable[Backend]]) -> Way:
    return lambda port, table, before: replace(port, backends=tuple(which(port)))


def _stale(port: ServicePort, table: Table, before: Table | None) -> ServicePort:
    had = {one.name: one.backends for one in before.ports} if before else {}
    return replace(port, backends=had.get(port.name) or port.backends)


def _as_first_port(port: ServicePort, table: Table, before: Table | None) -> ServicePort:
    kind = (port.name.rpartition(":")[0], port.protocol)
    alike = (one for one in table.ports if (one.name.rpartition(":")[0], one.protocol) == kind)
    return replace(port, backends=next(alike).backends)


def _of_another(port: ServicePort, table: Table, before: Table | None) -> ServicePort:
    """Return the port with the backends of the next Service, by address, that serves the same port
    and shares no backend with this Service. Without such a Service, the port keeps its own
    backends.

    Services without backends neither give nor get backends.
    """

    def served(one: ServicePort) -> set[tuple[str, int]]:
        return {(one.protocol, backend.port) for backend in one.backends}

    groups = sorted(
        {one.backends for one in table.ports if one.backends and served(one) == served(port)},
        key=str,
    )
    if port.backends not in groups:
        return port
    place = groups.index(port.backends)
    others = [*groups[place + 1 :], *groups[:place]]
    wrong = (backends for backends in others if not set(backends) & set(port.backends))
    return replace(port, backends=next(wrong, port.backends))


def _of(wrong: Callable[[ServicePort], ServicePort], *protocols: str) -> Way:
    return lambda port, table, before: wrong(port) if port.protocol in protocols else port


def _without_node_port(port: ServicePort) -> ServicePort:
    return replace(port, node_port=None)


def _first_hundred(table: Table, node: str, before: Table | None) -> Table:
    """Return the table with only the first ports of each namespace, as many as a hundred Services
    have."""
    namespaces = groupby(table.ports, lambda port: port.name.partition("/")[0])
    return replace(table, ports=tuple(port for _, of in namespaces for port in islice(of, 300)))


class NeverAgain:
    """Services that have lost their last backend on a node get no new backends."""

    def __init__(self) -> None:
        self._emptied: dict[str, set[str]] = {}
        """Map each node to the ports of Services that have lost their last backend there."""

    def __call__(self, table: Table, node: str, before: Table | None) -> Table:
        emptied = self._emptied.setdefault(node, set())
        had = {port.name for port in before.ports if port.backends} if before else set()
        emptied |= {port.name for port in table.ports if not port.backends and port.name in had}
        emptied &= {port.name for port in table.ports}
        return _each(
            lambda port, *_: replace(port, backends=()) if port.name in emptied else port,
            table,
            before,
        )


class NeverReturns:
    """A backend that was left out of a Service on a node is not used there again."""

    def __init__(self) -> None:
        self._lost: dict[tuple[str, str], set[Backend]] = {}
        """Map each node and port of a Service to the backends that went."""

    def __call__(self, table: Table, node: str, before: Table | None) -> Table:
        had = {port.name: set(port.backends) for port in before.ports} if before else {}

        def left(port: ServicePort, *_: object) -> ServicePort:
            lost = self._lost.setdefault((node, port.name), set())
            lost |= had.get(port.name, set()) - set(port.backends)
            return replace(port, backends=tuple(one for one in port.backends if one not in lost))

        return _each(left, table, before)


class SharedLost:
    """A Service that is deleted, or loses a port, takes its backends away from the node's other
    Services."""

    def __init__(self) -> None:
        self._gone: dict[str, set[str]] = {}
        """Map each node to the addresses of the backends that are taken away."""

    def __call__(self, table: Table, node: str, before: Table | None) -> Table:
        there = {(port.cluster_ip, port.port) for port in table.ports}
        gone = self._gone.setdefault(node, set())
        gone |= {
            backend.address
            for port in (before.ports if before else ())
            if port.cluster_ip and (port.cluster_ip, port.port) not in there
            for backend in port.backends
        }
        return _each(
            lambda port, *_: replace(
                port, backends=tuple(one for one in port.backends if one.address not in gone)
            ),
            table,
            before,
        )


def _early(port: ServicePort) -> ServicePort:
    """Return the port of a Service with session affinity as on a later Windows build."""
    return replace(port, sticky=0) if "/session-affinity-" in port.name else port


def _sticky_closed(port: ServicePort) -> Iterable[Backend]:
    return port.backends if port.sticky is None else ()


def _everywhere(*, by_node_port: bool) -> Way:
    """Ignore traffic policies, so that all backends are used: at NodePorts, or at ClusterIPs."""

    def way(port: ServicePort, *_: object) -> ServicePort:
        if port.name.endswith(" (external)") is not by_node_port:
            return port
        return replace(port, backends=port.backends + port.elsewhere, node_port_keeps_client=False)

    return way


def _without_local(port: ServicePort, table: Table, before: Table | None) -> ServicePort:
    """Return the port without backends if the node has no backend for its NodePort."""
    twin = f"{port.name} (external)"
    empty = any(one.name == twin and not one.backends for one in table.ports)
    return replace(port, backends=()) if empty else port


def _udp_beside_tcp(port: ServicePort, table: Table, before: Table | None) -> ServicePort:
    tcp = {(one.cluster_ip, one.port) for one in table.ports if one.protocol == "tcp"}
    beside = port.protocol == "udp" and (port.cluster_ip, port.port) in tcp
    return replace(port, backends=()) if beside else port


def _published_left_out(port: ServicePort, table: Table, before: Table | None) -> ServicePort:
    """Return the port of a Service that publishes unready pods with only those backends that other
    Services have, too."""
    if "/not-ready-too-" not in port.name:
        return port
    others = {
        backend
        for one in table.ports
        if "/not-ready-too-" not in one.name
        for backend in one.backends
    }
    return replace(port, backends=tuple(one for one in port.backends if one in others))


def _without_selector(port: ServicePort) -> Iterable[Backend]:
    return () if "/without-selector" in port.name else port.backends


def _each(way: Way, table: Table, before: Table | None) -> Table:
    return replace(table, ports=tuple(way(port, table, before) for port in table.ports))


Tap = Callable[[Table, str, Table | None], Table]


def _bent(
    lab: LabParts, identity: str, parameters: Mapping[str, str], told: str, make: Callable[[], Tap]
) -> Fault:
    """Return a fault by which a node's kube-proxy has wrong backends of Services, or none of their
    NodePorts."""
    gate = lab.service_gate
    nodes = sorted(lab.nodes(parameters["node"]))
    if gate is None:
        raise BadFault("this lab has no kube-proxies")
    tap = make()

    def bend(table: Table, node: str, before: Table | None) -> Table:
        return tap(table, node, before) if node in nodes else table

    tables = {f"kube-proxy of {node}: {told}": gate.seam.taps for node in nodes}
    again = partial(gate.again, nodes)
    return Entries(identity, bend, tables, again, again)


def _ports(way: Way) -> Callable[[], Tap]:
    return lambda: lambda table, node, before: _each(way, table, before)


def _flows_stay(table: Table, node: str, before: Table | None) -> Table:
    return replace(table, flows_stay=True)


def _wrong(name: str, told: str, make: Callable[[], Tap], description: str) -> FaultType:
    return FaultType(
        name=name,
        layer="services",
        scope=NODE_OR_ALL.scope,
        description=description,
        parameters=(NODE_OR_ALL,),
        make=partial(_bent, told=told, make=make),
    )


TYPES += (
    _wrong(
        "backends-stale",
        "backends stale",
        _ports(_stale),
        "Kube-proxy keeps the backends that each Service had first",
    ),
    _wrong(
        "last-backend-stays-away",
        "no backends of a Service that once had none left",
        NeverAgain,
        "A Service that has lost its last backend gets none any more",
    ),
    _wrong(
        "udp-flows-stay",
        "flows of datagrams stay",
        lambda: _flows_stay,
        "Kube-proxy leaves flows of datagrams to backends that went as they are",
    ),
    _wrong(
        "one-backend",
        "backends first",
        _ports(_backends(lambda port: port.backends[:1])),
        "Kube-proxy uses the first backend of each Service alone",
    ),
    _wrong(
        "one-backend-of-datagrams",
        "backends first, for datagrams",
        _ports(_of(lambda port: replace(port, backends=port.backends[:1]), "udp")),
        "Kube-proxy leads datagrams to the first backend of each Service alone",
    ),
    _wrong(
        "load-balancers-missing",
        "no addresses of load balancers",
        _ports(_of(lambda port: replace(port, external_ips=()), "tcp", "udp")),
        "Kube-proxy leads addresses of load balancers nowhere",
    ),
    _wrong(
        "services-beyond-a-hundred-missing",
        "a hundred Services of each namespace",
        lambda: _first_hundred,
        "Kube-proxy programs a hundred Services of each namespace and no more",
    ),
    _wrong(
        "one-port",
        "one port of each Service",
        _ports(_as_first_port),
        "Kube-proxy leads every port of a Service to where its first one leads",
    ),
    _wrong(
        "udp-node-ports-keep-clients",
        "NodePorts for datagrams keep their clients' addresses",
        _ports(_of(lambda port: replace(port, node_port_keeps_client=True), "udp")),
        "Datagrams by a node's NodePorts keep their clients' addresses: answers pass the node by",
    ),
    _wrong(
        "backends-of-another",
        "backends others",
        _ports(_of_another),
        "Kube-proxy uses the backends of another Service that serve the same port",
    ),
    _wrong(
        "node-ports-missing",
        "no NodePorts",
        _ports(_of(_without_node_port, "tcp", "udp", "sctp")),
        "A node's kube-proxy has no NodePorts: connections to them are refused there",
    ),
    _wrong(
        "udp-node-ports-missing",
        "no NodePorts for UDP",
        _ports(_of(_without_node_port, "udp")),
        "A node's kube-proxy has NodePorts for TCP alone: datagrams to others are refused there",
    ),
    _wrong(
        "target-port-ignored",
        "backends at the Service's own port",
        _ports(_backends(lambda port: (replace(at, port=port.port) for at in port.backends))),
        "Kube-proxy asks the backends of Services at the Service's own port",
    ),
    _wrong(
        "backends-never-return",
        "no backend that was left out before",
        NeverReturns,
        "Kube-proxy does not use a backend again that a Service had lost",
    ),
    _wrong(
        "shared-backends-lost",
        "no backends of Services that went",
        SharedLost,
        "A Service that goes, or loses a port, takes its backends from all other Services",
    ),
    _wrong(
        "session-affinity-ignored",
        "no session affinity",
        _ports(lambda port, *_: replace(port, sticky=None)),
        "Kube-proxy leads each connection to any backend, whatever affinity a Service asks for",
    ),
    _wrong(
        "session-affinity-early",
        "session affinity as on later builds",
        _ports(_of(_early, "tcp", "udp")),
        "HNS of a build without session affinity keeps clients with their backend",
    ),
    _wrong(
        "session-affinity-closed",
        "no backends of Services with session affinity",
        _ports(_backends(_sticky_closed)),
        "A Service with session affinity leads nowhere",
    ),
    _wrong(
        "internal-policy-ignored",
        "backends of all nodes by ClusterIP",
        _ports(_everywhere(by_node_port=False)),
        "Kube-proxy ignores internalTrafficPolicy Local",
    ),
    _wrong(
        "external-policy-ignored",
        "backends of all nodes by NodePort",
        _ports(_everywhere(by_node_port=True)),
        "Kube-proxy ignores externalTrafficPolicy Local",
    ),
    _wrong(
        "cluster-ip-needs-local-backend",
        "no ClusterIP of Services with externalTrafficPolicy Local without a backend here",
        _ports(_without_local),
        "Where a node has no backend, a Service with externalTrafficPolicy Local has no ClusterIP",
    ),
    _wrong(
        "udp-closed-beside-tcp",
        "no backends of UDP ports whose number is a TCP port's, too",
        _ports(_udp_beside_tcp),
        "A Service's UDP port leads nowhere if its number is a TCP port's, too",
    ),
    _wrong(
        "not-ready-left-out",
        "only ready backends of Services that publish all",
        _ports(_published_left_out),
        "Kube-proxy ignores publishNotReadyAddresses",
    ),
    _wrong(
        "foreign-slices-ignored",
        "no backends of Services without a selector",
        _ports(_backends(_without_selector)),
        "Kube-proxy reads only EndpointSlices of Kubernetes' own controller",
    ),
    _wrong(
        "unready-backends-used",
        "backends with those that are not ready",
        _ports(_backends(lambda port: port.backends + port.unready)),
        "Kube-proxy uses the backends of Services that are not ready as well",
    ),
)
