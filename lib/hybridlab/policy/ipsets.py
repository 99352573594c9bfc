# SPDX-License-Identifier: Apache-2.0
"""IP sets: the addresses that a selector, a named port or a Service stands for, kept up to date
member by member.

There is one set per distinct selector (its canonical form), port name or service, shared by every
rule that needs it.
"""

import base64
import hashlib
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from hybridlab.policy.selectors import NAMESPACE_LABEL, Selector


def unique_id(prefix: str, content: str) -> str:
    """Return the id that Calico derives from ``content``, an object's description
    (libcalico-go/lib/hash)."""
    digest = hashlib.sha224(f"{prefix}:{content}".encode()).digest()
    return f"{prefix}:{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


@dataclass(frozen=True)
class SelectorSet:
    """Addresses of the endpoints, and networks of the network sets, that match a selector."""

    selector: Selector

    @cached_property
    def name(self) -> str:
        return unique_id("s", str(self.selector))


@dataclass(frozen=True)
class PortSet:
    """Members ``address,protocol,port`` for each matching endpoint that has a port of this name;
    empty protocol: any (felix/calc/rule_scanner.go, from v3.32 on)."""

    selector: Selector
    protocol: str
    port: str

    @cached_property
    def name(self) -> str:
        return unique_id("n", f"{unique_id('s', str(self.selector))},{self.protocol},{self.port}")


@dataclass(frozen=True)
class ServiceSet:
    """The addresses behind a Service, ready or not. If ``with_ports`` is true, the members are
    ``address,protocol,port``."""

    namespace: str
    service: str
    with_ports: bool

    @cached_property
    def name(self) -> str:
        return unique_id(
            "svc" if self.with_ports else "svcnoport", f"{self.namespace}/{self.service}"
        )


SetKey = SelectorSet | PortSet | ServiceSet


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A pod with all properties that selectors and sets use."""

    uid: str
    namespace: str
    name: str
    node: str
    address: str | None
    """The address; None until the pod has an address."""
    labels: Mapping[str, str]
    """All labels: the pod's own, the special labels, its namespace's and its service account's with
    their prefixes."""
    ports: tuple[tuple[str, str, int], ...] = ()
    """(name, protocol, number) of the named ports of the pod's containers."""


@dataclass(frozen=True, kw_only=True)
class NetworkSet:
    """A NetworkSet or GlobalNetworkSet."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    nets: tuple[str, ...]


@dataclass
class IPSet:
    """A set, and the members from each of its contributors."""

    key: SetKey
    contributions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The members that each contributor adds, by contributor (endpoint uid, network set, endpoint
    slice)."""
    without_covered: bool = False
    """True: an address or a network that another member covers is left out."""

    @cached_property
    def namespace(self) -> str | None:
        """Return the only namespace whose endpoints can be members; None: any namespace."""
        if isinstance(self.key, ServiceSet):
            return None
        return dict(self.key.selector.required()).get(NAMESPACE_LABEL)

    def members(self) -> tuple[str, ...]:
        every = {member for members in self.contributions.values() for member in members}
        if self.without_covered and any("/" in member for member in every):
            every = _without_covered(every)
        return tuple(sorted(every))

    def contribute(self, contributor: str, members: tuple[str, ...]) -> bool:
        """Replace a contributor's members; return whether the set has changed."""
        if self.contributions.get(contributor, ()) == members:
            return False
        if members:
            self.contributions[contributor] = members
        else:
            del self.contributions[contributor]
        return True

    def members_of(self, endpoint: Endpoint) -> tuple[str, ...]:
        key = self.key
        if (
            isinstance(key, ServiceSet)
            or endpoint.address is None
            or not key.selector.matches(endpoint.labels)
        ):
            return ()
        if isinstance(key, SelectorSet):
            return (endpoint.address,)
        return tuple(
            f"{endpoint.address},{protocol},{number}"
            for name, protocol, number in endpoint.ports
            if name == key.port and key.protocol in ("", protocol)
        )

    def members_of_network_set(self, network_set: NetworkSet) -> tuple[str, ...]:
        if isinstance(self.key, SelectorSet) and self.key.selector.matches(network_set.labels):
            return network_set.nets
        return ()


def _without_covered(members: set[str]) -> set[str]:
    """Return the addresses and networks that no other member covers."""
    networks = {member: ipaddress.ip_network(member) for member in members}
    kept: set[str] = set()
    last: dict[int, int] = {}
    for member, network in sorted(networks.items(), key=_from_first_and_widest):
        end = int(network.broadcast_address)
        if end > last.get(network.version, -1):
            last[network.version] = end
            kept.add(member)
    return kept


def _from_first_and_widest(
    entry: tuple[str, ipaddress.IPv4Network | ipaddress.IPv6Network],
) -> tuple[int, int]:
    _, network = entry
    return int(network.network_address), network.prefixlen
