# SPDX-License-Identifier: Apache-2.0
"""Faults of kube-proxies' tables: other backends of Services than there are, or no NodePorts."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from hybridlab.dataplane.model import Backend, ServicePort, ServiceTable
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE_OR_ALL, Entries, Fault, FaultType, Types

TYPES = Types()
Table = ServiceTable
Way = Callable[[ServicePort, Table, Table | None], ServicePort]
"""A port of a Service, the node's table, the table that was served before, to the port in its
place."""


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
    """The backends of the next Service, by address, that serve the same port and are none of this
    one's; else its own.

    A Service without backends has none to give, and gets none.
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


class NeverAgain:
    """Services that have lost their last backend on a node get none any more."""

    def __init__(self) -> None:
        self._emptied: dict[str, set[str]] = {}
        """Node to the ports of Services that have lost their last backend there."""

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


def _each(way: Way, table: Table, before: Table | None) -> Table:
    return replace(table, ports=tuple(way(port, table, before) for port in table.ports))


Tap = Callable[[Table, str, Table | None], Table]


def _bent(
    lab: LabParts, identity: str, parameters: Mapping[str, str], told: str, make: Callable[[], Tap]
) -> Fault:
    """A node's kube-proxy has other backends of Services than there are, or none of their
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
        "unready-backends-used",
        "backends with those that are not ready",
        _ports(_backends(lambda port: port.backends + port.unready)),
        "Kube-proxy uses the backends of Services that are not ready as well",
    ),
)
