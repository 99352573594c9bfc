# SPDX-License-Identifier: Apache-2.0
"""The world that policies speak of: pods, network sets, members of Services and nodes, with what selectors see of them.

Read from objects as the API gives them.  Kinds that decide nothing about policy are passed over; ``World.unread``
names them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from conformance.errors import UsageProblem
from conformance.policy import labels
from conformance.policy.labels import Labels
from conformance.policy.oracle import fields
from conformance.policy.oracle.fields import Obj, Range

FIRST_MADE_UP = fields.address("240.0.0.1")
"""Pods that say no address get one from here on: reserved, so that no network but 0.0.0.0/0 holds it."""


_FIRST = ("Namespace", "ServiceAccount", "Node")
"""Kinds that others are read with."""


@dataclass(frozen=True, eq=False)
class Pod:
    """A pod, as the end of a packet and as what selectors choose."""

    namespace: str
    name: str
    address: int
    os: str
    """``linux`` or ``windows``."""
    node: str
    own: Labels
    """As Kubernetes' selectors see them."""
    labels: Labels
    """As Calico's selectors see them."""
    namespace_labels: Labels
    account: str
    account_labels: Labels
    ports: frozenset[tuple[str, int, int]]
    """(name, protocol, number) of its containers' ports that have a name."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, eq=False)
class NetworkSet:
    """A NetworkSet, or a GlobalNetworkSet (``namespace`` None)."""

    namespace: str | None
    labels: Labels
    namespace_labels: Labels
    nets: tuple[Range, ...]


@dataclass(frozen=True)
class Backend:
    """What one EndpointSlice says of a Service's members."""

    addresses: frozenset[int]
    unready: frozenset[int]
    ports: frozenset[tuple[int, int]]
    """(protocol, number)."""


class World:
    """Everything but the policies."""

    def __init__(self, objects: Iterable[Obj]) -> None:
        """Raises UsageProblem for what cannot be read."""
        self.pods: dict[str, Pod] = {}
        self.sets: list[NetworkSet] = []
        self.backends: dict[tuple[str, str], list[Backend]] = {}
        self.hosts: dict[str, frozenset[int]] = {}
        """A node's own addresses."""
        self.assumed: list[str] = []
        """What no object says and the oracle made up."""
        self._namespaces: dict[str, Labels] = {}
        self._accounts: dict[tuple[str, str], Labels] = {}
        self._systems: dict[str, str] = {}
        self._at: dict[int, tuple[Pod | NetworkSet, ...]] = {}
        given = sorted(objects, key=lambda obj: obj.get("kind") not in _FIRST)
        self.unread = [fields.label(obj) for obj in given if not self._taken(obj)]
        """Objects of other kinds."""

    def at(self, address: int) -> tuple[Pod | NetworkSet, ...]:
        if address not in self._at:
            sets = (one for one in self.sets if fields.within(address, one.nets))
            self._at[address] = (*self._by_address.get(address, ()), *sets)
        return self._at[address]

    def only_ready(self) -> World | None:
        """The same world without members of Services that are not ready; None: there are none such."""
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
            found.setdefault(pod.address, []).append(pod)
        return found

    def _taken(self, obj: Obj) -> bool:
        """Whether the kind is one of the world's."""
        where = fields.label(obj)
        for name, value in ((obj.get("metadata") or {}).get("labels") or {}).items():
            if not isinstance(value, str):
                raise UsageProblem(
                    f"{where}: label {name} is a text: {str(value)!r} in quotes, not {value!r}"
                )
        try:
            return self._take(obj, where)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UsageProblem(f"{where}: cannot be read: {type(error).__name__} {error}") from None

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
            seen = labels.of_network_set(obj, inherited if space else None)
            nets = fields.nets((obj.get("spec") or {}).get("nets"), f"{where} nets") or ()
            self.sets.append(NetworkSet(space, seen, inherited, nets))
        elif kind == "EndpointSlice":
            self._take_slice(obj, where)
        else:
            return False
        return True

    def _take_node(self, obj: Obj) -> None:
        name = obj["metadata"]["name"]
        system = labels.own(obj).get("kubernetes.io/os")
        if system:
            self._systems[name] = system
        said = (obj.get("status") or {}).get("addresses") or []
        texts = [one["address"] for one in said if one.get("type") in {"InternalIP", "ExternalIP"}]
        self.hosts[name] = frozenset(fields.address(text) for text in texts if ":" not in text)

    def _take_pod(self, obj: Obj) -> None:
        spec = obj.get("spec") or {}
        status = obj.get("status") or {}
        if spec.get("hostNetwork") or status.get("phase") in {"Succeeded", "Failed"}:
            return  # no endpoint of Calico's
        space = _space(obj)
        name = obj["metadata"]["name"]
        account = labels.account_of(obj)
        where = f"{space}/{name}"
        of_account = self._accounts.get((space, account), {labels.NAME_LABEL: account})
        self.pods[where] = Pod(
            namespace=space,
            name=name,
            address=self._address(status, where),
            os=self._os(spec),
            node=spec.get("nodeName") or "",
            own=labels.own(obj),
            labels=labels.of_pod(obj, self._namespace(space), of_account),
            namespace_labels=self._namespace(space),
            account=account,
            account_labels=of_account,
            ports=frozenset(
                (
                    port["name"],
                    fields.protocol(port.get("protocol", "TCP"), f"Pod {where}"),
                    int(port["containerPort"]),
                )
                for container in spec.get("containers") or []
                for port in container.get("ports") or []
                if port.get("name")
            ),
        )

    def _address(self, status: Obj, where: str) -> int:
        texts = [status.get("podIP"), *(one.get("ip") for one in status.get("podIPs") or [])]
        found = next((text for text in texts if text and ":" not in text), None)
        if found:
            return fields.address(found)
        self.assumed.append(f"pod {where} says no address: it is in no network but 0.0.0.0/0")
        return FIRST_MADE_UP + len(self.pods)

    def _os(self, spec: Obj) -> str:
        said = (spec.get("os") or {}).get("name") or (spec.get("nodeSelector") or {}).get(
            "kubernetes.io/os"
        )
        return self._systems.get(spec.get("nodeName") or "") or str(said or "linux")

    def _namespace(self, name: str) -> Labels:
        if name not in self._namespaces:
            self.assumed.append(
                f"no file describes namespace {name}: it has no labels but its name"
            )
            self._namespaces[name] = labels.of_namespace({"metadata": {"name": name}})
        return self._namespaces[name]

    def _take_slice(self, obj: Obj, where: str) -> None:
        service = labels.own(obj).get("kubernetes.io/service-name")
        if not service:
            return
        members: dict[bool, set[int]] = {True: set(), False: set()}
        for endpoint in obj.get("endpoints") or []:
            ready = (endpoint.get("conditions") or {}).get("ready") is not False
            members[ready] |= {
                fields.address(text) for text in endpoint["addresses"] if ":" not in text
            }
        ports = frozenset(
            (fields.protocol(port.get("protocol") or "TCP", where), int(port["port"]))
            for port in obj.get("ports") or []
            if port.get("port") is not None
        )
        unready = frozenset(members[False] - members[True])
        backend = Backend(frozenset(members[True]) | unready, unready, ports)
        self.backends.setdefault((_space(obj), service), []).append(backend)


def _space(obj: Obj) -> str:
    return str((obj.get("metadata") or {}).get("namespace") or "default")
