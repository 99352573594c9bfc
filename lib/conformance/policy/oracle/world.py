# SPDX-License-Identifier: Apache-2.0
"""The objects that policies refer to: pods, network sets, members of Services and nodes, with the
properties that selectors match.

They are read from objects as the API gives them. Kinds that decide nothing about policy are
ignored; ``World.unread`` names them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from conformance.errors import UsageProblem
from conformance.policy import labels, services, systems
from conformance.policy.labels import Labels
from conformance.policy.oracle import fields
from conformance.policy.oracle.fields import IPV6, Obj, Range

FIRST_MADE_UP = fields.address("240.0.0.1")
"""The first of the addresses that pods without an address get. The range is reserved, so only
0.0.0.0/0 contains it."""
SERVICE_LABEL = "kubernetes.io/service-name"
"""The label of an EndpointSlice that names its Service."""
_FIRST = ("Namespace", "ServiceAccount", "Node", "RuntimeClass")
"""Kinds that are needed to read other kinds."""


@dataclass(frozen=True, eq=False)
class Pod:
    """A pod, which may be an end of a packet and may be selected by selectors. A field that is None
    is not known."""

    namespace: str
    name: str
    address: int
    os: str
    """``linux`` or ``windows``; empty: that is not known."""
    node: str
    own: Labels | None
    """The labels that Kubernetes' selectors match."""
    labels: Labels | None
    """The labels that Calico's selectors match."""
    namespace_labels: Labels | None
    account: str
    account_labels: Labels | None
    ports: frozenset[tuple[str, int, int]] | None
    """(name, protocol, number) of its containers' named ports."""
    second: int | None = None
    """The pod's address of the other IP version."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, eq=False)
class NetworkSet:
    """A NetworkSet, or a GlobalNetworkSet (``namespace`` None). Selectors treat a node as a network
    set."""

    namespace: str | None
    labels: Labels | None
    namespace_labels: Labels | None
    nets: tuple[Range, ...]


Member = Pod | NetworkSet
"""The objects that selectors may select."""


@dataclass(frozen=True)
class Backend:
    """The members of a Service in a single EndpointSlice."""

    addresses: frozenset[int]
    unready: frozenset[int]
    ports: frozenset[tuple[int, int]]
    """(protocol, number)."""


class World:
    """The objects that decide about packets, except the policies."""

    def __init__(self, objects: Iterable[Obj]) -> None:
        """Read the objects of a world. Raise UsageProblem for an unreadable object."""
        self.pods: dict[str, Pod] = {}
        self.sets: list[NetworkSet] = []
        self.backends: dict[tuple[str, str], list[Backend]] = {}
        self.hosts: dict[str, frozenset[int]] = {}
        """Each node's own addresses."""
        self.unknown_services: set[tuple[str, str]] = set()
        """Services whose members no object names."""
        self.undescribed: list[str] = []
        """Namespaces that no object describes: they have no labels except their names."""
        self.without_address: list[str] = []
        """Pods without an address: they are in no network except 0.0.0.0/0."""
        self.on_host: list[str] = []
        """Pods in their node's network: no policy about pods applies to them."""
        self.ended: list[str] = []
        """Pods that have ended."""
        self._classes: dict[str, Labels] = {}
        self._services: list[Obj] = []
        self._candidates: list[services.Candidate] = []
        self._namespaces: dict[str, Labels] = {}
        self._accounts: dict[tuple[str, str], Labels] = {}
        self._systems: dict[str, str] = {}
        self._at: dict[int, tuple[Member, ...]] = {}
        given = sorted(objects, key=lambda obj: obj.get("kind") not in _FIRST)
        self.unread = [obj for obj in given if not self._taken(obj)]
        """Objects of other kinds."""
        for service in self._services:
            with fields.legible(fields.label(service)):
                self._derive(service)

    def at(self, address: int) -> tuple[Member, ...]:
        if address not in self._at:
            sets = (one for one in self.sets if fields.within(address, one.nets))
            self._at[address] = (*self._by_address.get(address, ()), *sets)
        return self._at[address]

    def members(self, address: int, *, of_destination: bool) -> Sequence[Member] | None:
        """Return the members at one end of a packet; None if they are not known."""
        return self.at(address)

    def backends_of(self, service: tuple[str, str]) -> Sequence[Backend] | None:
        """Return the members of a Service (namespace and name); None if they are not known."""
        return None if service in self.unknown_services else self.backends.get(service, ())

    def only_ready(self) -> World | None:
        """Return this world without members of Services that are not ready; None if every member is
        ready."""
        if not any(backend.unready for listed in self.backends.values() for backend in listed):
            return None
        other = copy.copy(self)
        other.backends = {
            service: [replace(one, addresses=one.addresses - one.unready) for one in listed]
            for service, listed in self.backends.items()
        }
        return other

    @cached_property
    def _by_address(self) -> dict[int, list[Pod]]:
        found: dict[int, list[Pod]] = {}
        for pod in self.pods.values():
            for address in filter(None, (pod.address, pod.second)):
                found.setdefault(address, []).append(pod)
        return found

    def _taken(self, obj: Obj) -> bool:
        """Add an object to the world; return whether its kind belongs there. Raise UsageProblem."""
        where = fields.label(obj)
        with fields.legible(where):
            for name, value in ((obj.get("metadata") or {}).get("labels") or {}).items():
                if not isinstance(value, str):
                    # a date in YAML has no type of JSON, and is shown as it is written
                    is_json = isinstance(value, int | float | list | dict | None)
                    shown = fields.shown(value) if is_json else str(value)
                    raise UsageProblem(
                        f"{where}: label {str(name)[:80]} must be a string: write "
                        f"{shown!r} with quotes, not {shown}"
                    )
            return not fields.is_foreign(obj) and self._take(obj, where)

    def _take(self, obj: Obj, where: str) -> bool:
        kind = obj["kind"]
        name = obj["metadata"]["name"]
        if kind == "Namespace":
            self._namespaces[name] = labels.of_namespace(obj)
        elif kind == "ServiceAccount":
            self._accounts[_space(obj), name] = labels.of_service_account(obj)
        elif kind == "Node":
            self._take_node(obj)
        elif kind == "Pod":
            self._take_pod(obj)
        elif kind in {"NetworkSet", "GlobalNetworkSet"}:
            space = _space(obj) if kind == "NetworkSet" else None
            inherited = self._namespace(space) if space else {}
            observed = labels.of_network_set(obj, inherited if space else None)
            nets = fields.nets((obj.get("spec") or {}).get("nets"), f"{where} nets") or ()
            self.sets.append(NetworkSet(space, observed, inherited, nets))
        elif kind == "EndpointSlice":
            self._take_slice(obj, where)
        else:
            return self._take_beside(obj, kind)
        return True

    def _take_beside(self, obj: Obj, kind: str) -> bool:
        """Add an object that only has further details about pods and Services. Return whether it is
        of such a kind."""
        if kind == "RuntimeClass":
            selector = (obj.get("scheduling") or {}).get("nodeSelector") or {}
            self._classes[obj["metadata"]["name"]] = selector
        elif kind == "Service":
            self._services.append(obj)
        return kind in ("RuntimeClass", "Service")

    def _take_node(self, obj: Obj) -> None:
        name = obj["metadata"]["name"]
        system = systems.of_node(obj)
        if system:
            self._systems[name] = system
        said = (obj.get("status") or {}).get("addresses") or []
        texts = [one["address"] for one in said if one.get("type") in {"InternalIP", "ExternalIP"}]
        self.hosts[name] = frozenset(fields.ip(one, f"Node {name}: ") for one in texts)

    def _take_pod(self, obj: Obj) -> None:
        spec = obj.get("spec") or {}
        status = obj.get("status") or {}
        where = f"{_space(obj)}/{obj['metadata']['name']}"
        if status.get("phase") in {"Succeeded", "Failed"}:
            self.ended.append(where)  # no endpoint of Calico's, and no member of a Service
            return
        texts = [status.get("podIP"), *(one.get("ip") for one in status.get("podIPs") or [])]
        found = dict.fromkeys(fields.ip(text, f"Pod {where}: ") for text in texts if text)
        if spec.get("hostNetwork"):
            self.on_host.append(where)
        else:
            found = dict.fromkeys([self._take_endpoint(obj, spec, sorted(found)), *found])
        self._candidates.append(services.candidate(obj, frozenset(found)))

    def _take_endpoint(self, obj: Obj, spec: Obj, found: list[int]) -> int:
        """Add a pod that policies apply to; return its address."""
        space = _space(obj)
        name = obj["metadata"]["name"]
        account = labels.account_of(obj)
        where = f"{space}/{name}"
        of_account = self._accounts.get((space, account), {labels.NAME_LABEL: account})
        self.pods[where] = Pod(
            namespace=space,
            name=name,
            address=found[0] if found else FIRST_MADE_UP + len(self.pods),
            os=systems.of_pod(spec, self._systems, self._classes),
            node=fields.text(spec.get("nodeName"), where),
            own=labels.own(obj),
            labels=labels.of_pod(obj, self._namespace(space), of_account),
            namespace_labels=self._namespace(space),
            account=account,
            account_labels=of_account,
            ports=named_ports(spec, f"Pod {where}"),
            second=next((one for one in found if (one < IPV6) != (found[0] < IPV6)), None),
        )
        if not found:
            self.without_address.append(where)
        return self.pods[where].address

    def _namespace(self, name: str) -> Labels:
        if name not in self._namespaces:
            self.undescribed.append(name)
            self._namespaces[name] = labels.of_namespace({"metadata": {"name": name}})
        return self._namespaces[name]

    def _take_slice(self, obj: Obj, where: str) -> None:
        service = labels.own(obj).get(SERVICE_LABEL)
        if not service or obj.get("addressType") == "FQDN":
            return
        members: dict[bool, set[int]] = {True: set(), False: set()}
        for endpoint in obj.get("endpoints") or []:
            ready = (endpoint.get("conditions") or {}).get("ready") is not False
            members[ready] |= {fields.ip(one, f"{where}: ") for one in endpoint["addresses"]}
        ports = frozenset(
            (fields.protocol(port.get("protocol") or "TCP", where), int(port["port"]))
            for port in obj.get("ports") or []
            if port.get("port") is not None
        )
        unready = frozenset(members[False] - members[True])
        backend = Backend(frozenset(members[True]) | unready, unready, ports)
        self.backends.setdefault((_space(obj), service), []).append(backend)

    def _derive(self, service: Obj) -> None:
        """Derive the backends of a Service that has no EndpointSlices from the pods that it
        selects."""
        key = (_space(service), service["metadata"]["name"])
        if key in self.backends:
            return
        chosen = services.members(service, self._candidates)
        if chosen is None:
            self.unknown_services.add(key)
            return
        self.backends[key] = []
        for pod, listed in chosen:
            ports = frozenset((fields.protocol(name, key[1]), port) for name, port in listed)
            backend = Backend(pod.addresses, frozenset() if pod.ready else pod.addresses, ports)
            self.backends[key].append(backend)


def named_ports(spec: Obj, where: str) -> frozenset[tuple[str, int, int]]:
    """Return name, protocol and number of a pod's named ports."""
    return frozenset(
        (
            str(port["name"]),
            fields.protocol(port.get("protocol", "TCP"), where),
            int(port["containerPort"]),
        )
        for container in spec.get("containers") or []
        for port in container.get("ports") or []
        if port.get("name")
    )


def _space(obj: Obj) -> str:
    return str((obj.get("metadata") or {}).get("namespace") or "default")
