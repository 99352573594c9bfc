# SPDX-License-Identifier: Apache-2.0
"""IP sets: the addresses behind a selector, a named port or a service, kept up to date member by member.

One set per distinct selector (its canonical form), port name or service, shared by every rule that needs it.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from hybridlab.policy.selectors import NAMESPACE_LABEL, Selector


def unique_id(prefix: str, content: str) -> str:
    """An id as Calico makes it from what it identifies (libcalico-go/lib/hash)."""
    digest = hashlib.sha224(f"{prefix}:{content}".encode()).digest()
    return f"{prefix}:{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


@dataclass(frozen=True)
class SelectorSet:
    """Addresses of the endpoints, and networks of the network sets, that a selector matches."""

    selector: Selector

    @cached_property
    def name(self) -> str:
        return unique_id("s", str(self.selector))


@dataclass(frozen=True)
class PortSet:
    """``address,protocol,port`` of the endpoints that a selector matches and that name a port so."""

    selector: Selector
    protocol: str
    port: str

    @cached_property
    def name(self) -> str:
        return unique_id("n", f"{unique_id('s', str(self.selector))},{self.protocol},{self.port}")


@dataclass(frozen=True)
class ServiceSet:
    """The addresses behind a Service, ready or not; with ports ``address,protocol,port``."""

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
    """A pod with everything that selectors and sets look at."""

    uid: str
    namespace: str
    name: str
    node: str
    address: str | None
    """None until the pod has one."""
    labels: Mapping[str, str]
    """Full labels: the pod's own, the special ones, its namespace's and its service account's with their prefixes."""
    ports: tuple[tuple[str, str, int], ...] = ()
    """(name, protocol, number) of its containers' named ports."""


@dataclass(frozen=True, kw_only=True)
class NetworkSet:
    """A NetworkSet or GlobalNetworkSet."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    nets: tuple[str, ...]


@dataclass
class IPSet:
    """One set and who contributes what to it."""

    key: SetKey
    contributions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Contributor (endpoint uid, network set, endpoint slice) to its members."""

    @cached_property
    def namespace(self) -> str | None:
        """The only namespace whose endpoints can be members; None: any."""
        if isinstance(self.key, ServiceSet):
            return None
        return dict(self.key.selector.required()).get(NAMESPACE_LABEL)

    def members(self) -> tuple[str, ...]:
        return tuple(
            sorted({member for members in self.contributions.values() for member in members})
        )

    def contribute(self, contributor: str, members: tuple[str, ...]) -> bool:
        """Replace what a contributor gives; True when that changed anything."""
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
            f"{endpoint.address},{key.protocol},{number}"
            for name, protocol, number in endpoint.ports
            if name == key.port and protocol == key.protocol
        )

    def members_of_network_set(self, network_set: NetworkSet) -> tuple[str, ...]:
        if isinstance(self.key, SelectorSet) and self.key.selector.matches(network_set.labels):
            return network_set.nets
        return ()
