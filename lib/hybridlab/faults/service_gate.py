"""Service tables that are wrong: a gate between the kube-proxies and the data plane.

The composition gives the gate to the kube-proxies in the data plane's place.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Literal

from hybridlab.dataplane.contract import Dataplane
from hybridlab.dataplane.model import Backend, ServicePort, ServiceTable

Way = Literal[
    "stale",
    "first",
    "first-of-datagrams",
    "first-port",
    "others",
    "no-node-ports",
    "no-udp-node-ports",
    "clients-kept",
    "own-port",
    "unready",
    "never-again",
    "flows-stay",
]
"""``stale``: a Service keeps the backends that it had first; ``first``: it has the first of its backends alone,
``first-of-datagrams``: for UDP; ``first-port``: all its ports of one protocol lead to where the first one does;
``others``: it has those of another Service that serve the same port; ``no-node-ports``: it has its ClusterIP alone;
``no-udp-node-ports``: it has NodePorts for TCP alone; ``clients-kept``: what comes by those for UDP keeps its source;
``own-port``: backends are asked at the Service's own port; ``unready``: it has those that are not ready as well;
``never-again``: once it has lost its last one it has none; ``flows-stay``: datagrams of a flow go on to the backend
that it began with."""


class ServiceGate:
    """Lets tables through, or wrong ones.  Offers ``set_services`` of the data plane."""

    def __init__(self, dataplane: Dataplane) -> None:
        self._dataplane = dataplane
        self._true: dict[str, ServiceTable] = {}
        self._served: dict[str, ServiceTable] = {}
        self._wrong: dict[str, tuple[Way, frozenset[str]]] = {}
        self._emptied: dict[str, set[str]] = {}
        """Node to the ports of Services that have lost their last backend there, under ``never-again``."""
        self._lost: set[str] = set()
        """Nodes without any Service."""

    async def set_services(self, node: str, table: ServiceTable) -> None:
        """Replace a node's services; what is wrong there stays wrong."""
        self._true[node] = table
        await self._serve(node)

    async def bend(self, fault: str, way: Way, nodes: Collection[str]) -> None:
        """From now on, on behalf of a fault."""
        self._wrong[fault] = way, frozenset(nodes)
        for node in nodes:
            await self._serve(node)

    async def straighten(self, fault: str) -> None:
        """No longer; nothing when the fault is not there."""
        _, nodes = self._wrong.pop(fault, ("stale", frozenset[str]()))
        self._emptied.clear()
        for node in nodes:
            await self._serve(node)

    def bent(self, fault: str) -> tuple[Way, frozenset[str]] | None:
        return self._wrong.get(fault)

    async def lose(self, node: str) -> None:
        """From now on a node has no Services, whatever its kube-proxy programs."""
        self._lost.add(node)
        await self._serve(node)

    async def regain(self, node: str) -> None:
        """It has again what its kube-proxy programs."""
        self._lost.discard(node)
        await self._serve(node)

    async def _serve(self, node: str) -> None:
        if node not in self._true:
            return
        table = self._true[node]
        before = self._served.get(node)
        if node in self._lost:
            table = replace(table, ports=())
        for way, nodes in self._wrong.values():
            if node in nodes and way == "never-again":
                table = self._never_again(node, table, before)
            elif node in nodes and way == "flows-stay":
                table = replace(table, flows_stay=True)
            elif node in nodes:
                table = replace(
                    table, ports=tuple(_wrong(port, way, table, before) for port in table.ports)
                )
        table = replace(
            table, ports=tuple(replace(port, unready=()) for port in table.ports)
        )  # programmed nowhere
        if table != before:
            await self._dataplane.set_services(node, table)
            self._served[node] = table

    def _never_again(
        self, node: str, table: ServiceTable, before: ServiceTable | None
    ) -> ServiceTable:
        emptied = self._emptied.setdefault(node, set())
        had = {port.name for port in before.ports if port.backends} if before else set()
        emptied |= {port.name for port in table.ports if not port.backends and port.name in had}
        emptied &= {port.name for port in table.ports}
        ports = (
            replace(port, backends=()) if port.name in emptied else port for port in table.ports
        )
        return replace(table, ports=tuple(ports))


def _wrong(
    port: ServicePort, way: Way, table: ServiceTable, before: ServiceTable | None
) -> ServicePort:
    if way in ("no-node-ports", "no-udp-node-ports", "clients-kept"):
        return _wrong_node_port(port, way)
    return replace(port, backends=tuple(_wrong_backends(port, way, table, before)))


def _wrong_node_port(port: ServicePort, way: Way) -> ServicePort:
    udp = port.protocol == "udp"
    if way == "clients-kept":
        return replace(port, node_port_keeps_client=port.node_port_keeps_client or udp)
    return replace(port, node_port=None) if udp or way == "no-node-ports" else port


def _wrong_backends(
    port: ServicePort, way: Way, table: ServiceTable, before: ServiceTable | None
) -> Iterable[Backend]:
    if way == "own-port":
        return (replace(backend, port=port.port) for backend in port.backends)
    if way == "first":
        return port.backends[:1]
    if way == "first-of-datagrams":
        return port.backends[:1] if port.protocol == "udp" else port.backends
    if way == "first-port":
        kind = (port.name.rpartition(":")[0], port.protocol)
        return next(
            one.backends
            for one in table.ports
            if (one.name.rpartition(":")[0], one.protocol) == kind
        )
    if way == "others":
        return _of_another(port, table)
    if way == "unready":
        return port.backends + port.unready
    had = {one.name: one.backends for one in before.ports} if before else {}
    return had.get(port.name) or port.backends


def _of_another(port: ServicePort, table: ServiceTable) -> tuple[Backend, ...]:
    """The backends of the next Service, by address, that serve the same port and are none of this one's; else its own.

    A Service without backends has none to give, and gets none.
    """

    def served(one: ServicePort) -> set[tuple[str, int]]:
        return {(one.protocol, backend.port) for backend in one.backends}

    groups = sorted(
        {one.backends for one in table.ports if one.backends and served(one) == served(port)},
        key=str,
    )
    if port.backends not in groups:
        return port.backends
    place = groups.index(port.backends)
    others = [*groups[place + 1 :], *groups[:place]]
    return next(
        (backends for backends in others if not set(backends) & set(port.backends)), port.backends
    )
