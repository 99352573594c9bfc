# SPDX-License-Identifier: Apache-2.0
"""Services: defaults, cluster addresses and node ports, checks.

Addresses and ports in use are derived from the stored Services, so nothing can leak and a dry run
reserves nothing. Services are single-stack IPv4, like the lab's network.
"""

import random
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network
from itertools import chain

from hybridlab.api.contract import Obj
from hybridlab.api.errors import (
    Cause,
    duplicate,
    forbidden_field,
    internal,
    invalid,
    invalid_value,
    required,
)
from hybridlab.api.kinds.metadata import label_problems
from hybridlab.api.kinds.strategy import (
    Strategy,
    dns_1035_problem,
    fill,
    label_problem,
    port_problems,
    subdomain_problem,
)
from hybridlab.api.kinds.values import in_range, invalid_if, one_of

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_POLICIES = ("Cluster", "Local")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_WITH_NODE_PORTS = frozenset({"NodePort", "LoadBalancer"})
STICKY_SECONDS = 10800
"""The default of sessionAffinityConfig.clientIP.timeoutSeconds."""


class ServiceStrategy(Strategy):
    """The rules of Services."""

    counts_generations = False
    returns_deleted = True

    def __init__(self, cidr: str, node_ports: str) -> None:
        self._network = IPv4Network(cidr)
        first, _, last = node_ports.partition("-")
        self._first_port = int(first)
        self._last_port = int(last)
        self._range = node_ports
        self._addresses: dict[str, tuple[str, str]] = {}
        self._ports: dict[tuple[str, int], tuple[str, str]] = {}
        self._random = random.Random()

    def name_problem(self, name: str) -> str | None:
        return dns_1035_problem(name)

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        kind = spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if spec["sessionAffinity"] == "ClientIP":
            config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            config.setdefault("timeoutSeconds", STICKY_SECONDS)
        elif spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if not port.get("targetPort"):
                port["targetPort"] = port["port"]
        if kind == "ExternalName":
            return
        spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind in _WITH_NODE_PORTS or spec.get("externalIPs"):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        fill(spec, ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
        if spec.get("clusterIPs") and not spec.get("clusterIP"):
            spec["clusterIP"] = spec["clusterIPs"][0]

    def prepare_create(self, obj: Obj) -> None:
        obj["status"] = {"loadBalancer": {}}
        self._allocate(obj, None)

    def prepare_update(self, obj: Obj, old: Obj, subresource: str) -> None:
        if subresource:
            return
        spec = obj["spec"]
        before = old["spec"]
        if "ExternalName" not in {spec["type"], before["type"]}:
            _keep_allocated(spec, before)
        if before["type"] in _WITH_NODE_PORTS and spec["type"] in {"ClusterIP", "ExternalName"}:
            _release_node_ports(spec, before)
        if spec["type"] == "ExternalName" and before["type"] != "ExternalName":
            for key in _ONLY_WITH_ADDRESS:
                spec.pop(key, None)
        self._allocate(obj, old)

    def _allocate(self, obj: Obj, old: Obj | None) -> None:
        """Give the Service the address and node ports that it needs and does not have yet."""
        spec = obj["spec"]
        meta = obj["metadata"]
        if spec["type"] == "ExternalName" or any(self.validate(obj, old)):
            return
        me = (meta["namespace"], meta["name"])
        causes: list[Cause] = []
        if not spec.get("clusterIP"):
            spec["clusterIP"] = self._free_address()
        elif spec["clusterIP"] != "None":
            causes.extend(self._address_problems(spec["clusterIP"], me))
        spec["clusterIPs"] = [spec["clusterIP"]]
        if spec["type"] in _WITH_NODE_PORTS:
            taken: set[tuple[str, int]] = set()
            for index, port in enumerate(spec.get("ports") or ()):
                key = (port["protocol"], port.get("nodePort", 0))
                if key[1]:
                    causes.extend(self._port_problems(key, me, f"spec.ports[{index}].nodePort"))
                    taken.add(key)
            for port in spec.get("ports") or ():
                if not port.get("nodePort") and spec.get("allocateLoadBalancerNodePorts", True):
                    port["nodePort"] = self._free_port(port["protocol"], taken)
                    taken.add((port["protocol"], port["nodePort"]))
        if causes:
            raise invalid("Service", "", meta["name"], causes)

    def _free_address(self) -> str:
        size = self._network.num_addresses
        reserved = min(
            max(16, size // 16), 256
        )  # kept for addresses that users request, as in the real allocator
        start = reserved if size > 2 * reserved else 1
        tries = (self._random.randrange(start, size - 1) for _ in range(32))
        for number in chain(tries, range(1, size - 1)):
            address = str(self._network[number])
            if address not in self._addresses:
                return address
        raise internal(f"failed to allocate a serviceIP: range {self._network} is full")

    def _address_problems(self, address: str, me: tuple[str, str]) -> Iterator[Cause]:
        if IPv4Address(address) not in self._network:
            yield invalid_value(
                "spec.clusterIPs",
                [address],
                f"failed to allocate IP {address}: the provided network does not match the current range",
            )
        elif self._addresses.get(address, me) != me:
            yield invalid_value(
                "spec.clusterIPs",
                [address],
                f"failed to allocate IP {address}: provided IP is already allocated",
            )

    def _free_port(self, protocol: str, taken: set[tuple[str, int]]) -> int:
        tries = (self._random.randint(self._first_port, self._last_port) for _ in range(32))
        for number in chain(tries, range(self._first_port, self._last_port + 1)):
            if (protocol, number) not in self._ports and (protocol, number) not in taken:
                return number
        raise internal(f"failed to allocate a nodePort: range {self._range} is full")

    def _port_problems(self, key: tuple[str, int], me: tuple[str, str], at: str) -> Iterator[Cause]:
        if not self._first_port <= key[1] <= self._last_port:
            detail = f"provided port is not in the valid range. The range of valid ports is {self._range}"
            yield invalid_value(at, key[1], detail)
        elif self._ports.get(key, me) != me:
            yield invalid_value(at, key[1], "provided port is already allocated")

    def committed(self, obj: Obj | None, old: Obj | None) -> None:
        if old is not None:
            self._addresses.pop(old["spec"].get("clusterIP", ""), None)
            for port in old["spec"].get("ports") or ():
                self._ports.pop((port.get("protocol", "TCP"), port.get("nodePort", 0)), None)
        if obj is not None:
            me = (obj["metadata"]["namespace"], obj["metadata"]["name"])
            address = obj["spec"].get("clusterIP", "")
            if address not in {"", "None"}:
                self._addresses[address] = me
            for port in obj["spec"].get("ports") or ():
                if port.get("nodePort"):
                    self._ports[port.get("protocol", "TCP"), port["nodePort"]] = me

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        spec = obj["spec"]
        kind = spec["type"]
        yield from one_of("spec.type", kind, TYPES)
        yield from one_of("spec.sessionAffinity", spec["sessionAffinity"], ("ClientIP", "None"))
        yield from label_problems(spec.get("selector") or {}, "spec.selector")
        if kind == "ExternalName":
            if not spec.get("externalName"):
                yield required("spec.externalName")
            elif problem := subdomain_problem(spec["externalName"].rstrip(".")):
                yield invalid_value("spec.externalName", spec["externalName"], problem)
            if spec.get("clusterIP"):
                yield forbidden_field(
                    "spec.clusterIPs", "may not be set when `type` is 'ExternalName'"
                )
        elif not spec.get("ports") and spec.get("clusterIP") != "None":
            yield required("spec.ports")
        yield from _traffic_problems(spec)
        yield from _family_problems(spec)
        yield from _cluster_ip_problems(spec, old["spec"] if old else None)
        yield from _ports_problems(spec)


_ONLY_WITH_ADDRESS = (
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "ipFamilyPolicy",
    "internalTrafficPolicy",
)


def _keep_allocated(spec: Obj, before: Obj) -> None:
    """Keep the address and the node ports that an update leaves out."""
    if not spec.get("clusterIP"):
        spec["clusterIP"] = before.get("clusterIP", "")
        spec["clusterIPs"] = before.get("clusterIPs") or [spec["clusterIP"]]
    elif spec["clusterIP"] != before.get("clusterIP") and spec.get("clusterIPs") == before.get(
        "clusterIPs"
    ):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if spec["type"] == "ClusterIP":
        return
    known = {
        (port.get("protocol"), port["port"]): port.get("nodePort")
        for port in before.get("ports") or ()
    }
    for port in spec.get("ports") or ():
        number = known.get((port.get("protocol"), port["port"]))
        if number and not port.get("nodePort"):
            port["nodePort"] = number


def _release_node_ports(spec: Obj, before: Obj) -> None:
    """Remove fields that a Service without node ports may not have."""
    if spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy"):
        spec.pop("externalTrafficPolicy", None)
    spec.pop("allocateLoadBalancerNodePorts", None)
    for port in spec.get("ports") or ():
        port.pop("nodePort", None)


def _traffic_problems(spec: Obj) -> Iterator[Cause]:
    """Return the problems of a Service's traffic policies."""
    external = spec.get("externalTrafficPolicy")
    reachable = spec["type"] in _WITH_NODE_PORTS or (
        spec["type"] == "ClusterIP" and bool(spec.get("externalIPs"))
    )
    if external and not reachable:
        detail = "may only be set for externally-accessible services"
        yield invalid_value("spec.externalTrafficPolicy", external, detail)
    elif external:
        yield from one_of("spec.externalTrafficPolicy", external, _POLICIES)
    internal_policy = spec.get("internalTrafficPolicy")
    if internal_policy is not None:
        yield from one_of("spec.internalTrafficPolicy", internal_policy, _POLICIES)


def _family_problems(spec: Obj) -> Iterator[Cause]:
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        at = f"spec.ipFamilies[{index}]"
        yield from one_of(at, family, ("IPv4", "IPv6"))
        yield from invalid_if(family == "IPv6", at, family, "not configured on this cluster")
    policy = spec.get("ipFamilyPolicy", "SingleStack")
    yield from one_of("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES)
    yield from invalid_if(
        policy == "RequireDualStack",
        "spec.ipFamilyPolicy",
        policy,
        "this cluster is not configured for dual-stack services",
    )


def _cluster_ip_problems(spec: Obj, old: Obj | None) -> Iterator[Cause]:
    address = spec.get("clusterIP", "")
    if address not in {"", "None"}:
        try:
            IPv4Address(address)
        except ValueError:
            yield invalid_value(
                "spec.clusterIPs[0]",
                address,
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            )
    yield from invalid_if(
        address == "None" and spec["type"] in _WITH_NODE_PORTS,
        "spec.clusterIPs[0]",
        "None",
        f"may not be set to 'None' for {spec['type']} services",
    )
    yield from invalid_if(
        old is not None
        and "ExternalName" not in {old["type"], spec["type"]}
        and old.get("clusterIP") != address,
        "spec.clusterIPs[0]",
        [address],
        "may not change once set",
    )
    given = spec.get("clusterIPs")
    yield from invalid_if(
        given and given[0] != address,
        "spec.clusterIPs",
        given,
        "first value must match `clusterIP`",
    )


def _ports_problems(spec: Obj) -> Iterator[Cause]:
    ports = spec.get("ports") or []
    names: set[str] = set()
    observed: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        at = f"spec.ports[{index}]"
        if not port.get("name") and len(ports) > 1:
            yield required(f"{at}.name")
        elif port.get("name"):
            if problem := label_problem(port["name"]):
                yield invalid_value(f"{at}.name", port["name"], problem)
            elif port["name"] in names:
                yield duplicate(f"{at}.name", port["name"])
            names.add(port["name"])
        yield from in_range(f"{at}.port", port["port"], 1, 65535)
        yield from one_of(f"{at}.protocol", port["protocol"], _PROTOCOLS)
        yield from port_problems(port["targetPort"], f"{at}.targetPort")
        if port.get("nodePort") and spec["type"] == "ClusterIP":
            yield forbidden_field(f"{at}.nodePort", "may not be used when `type` is 'ClusterIP'")
        key = (port["protocol"], port["port"])
        if key in observed:
            shown = {
                "Name": "",
                "Protocol": key[0],
                "AppProtocol": None,
                "Port": key[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            yield duplicate(at, shown)
        observed.add(key)
