"""What Linux nodes route to Windows nodes' pods, and by IPIP, as facts by name.  It judges nothing."""

import ipaddress
from collections.abc import Callable

from conformance.facts.objects import CRD, V3, CalicoObjects
from conformance.kube.client import Kube
from conformance.model.facts import Fact
from conformance.model.host import LinuxFacts

IPIP = "tunl0"
AGGREGATED = "one route for the whole block"


class LinuxRoutes:
    """Reads of one test.  ``look``: looks into a Linux node."""

    def __init__(
        self, kube: Kube, calico: CalicoObjects, look: Callable[[str], LinuxFacts]
    ) -> None:
        self._kube = kube
        self._calico = calico
        self._look = look

    def to_blocks(self, linux: str) -> dict[str, Fact[str]]:
        """How a Linux node routes each block of Windows nodes, ``one route for the whole block``, and nobody's."""
        seen = {
            ipaddress.IPv4Network(route.destination): route for route in self._look(linux).routes
        }
        found = dict[str, Fact[str]]()
        source = f"ip route on node {linux}"
        for name, blocks in self._calico.blocks().items():
            owner = name.removeprefix("blocks of node ")
            for cidr in map(ipaddress.IPv4Network, blocks.value or []):
                inside = [
                    f"{net} dev {one.device}"
                    for net, one in seen.items()
                    if net.subnet_of(cidr) and net != cidr
                ]
                told = f"routes within it: {', '.join(inside)}" if inside else AGGREGATED
                if (
                    other := self._calico.by_another(seen[cidr].gateway, owner)
                    if cidr in seen
                    else ""
                ):
                    told = f"by {seen[cidr].gateway}, which is node {other}"
                told = told if cidr in seen else "no route for the whole block"
                found[f"route of node {linux} to {cidr} of node {owner}"] = Fact(told, source)
        taken = [
            ipaddress.IPv4Network(one["spec"]["cidr"])
            for one in self._calico.listed("BlockAffinity")[0]
        ]
        pools = [
            ipaddress.IPv4Network(str(pool.value)) for pool in self._calico.pool_cidrs().values()
        ]
        for net, route in seen.items():
            in_pool = (
                route.gateway and net.prefixlen < 32 and any(net.subnet_of(pool) for pool in pools)
            )
            if in_pool and not any(net.overlaps(block) for block in taken):
                found[f"route of node {linux} to {net}"] = Fact(
                    f"by {route.gateway} to a block of no node", source
                )
        return found

    def by_ipip(self, linux: str) -> dict[str, Fact[list[str]]]:
        """Routes of a Linux node by the device of IPIP."""
        routes = [route.destination for route in self._look(linux).routes if route.device == IPIP]
        return {f"routes of node {linux} by {IPIP}": Fact(routes, f"ip route on node {linux}")}

    def ipip_setting(self) -> dict[str, Fact[str]]:
        """Whether IPIP is turned on: ``off`` also where nothing is set, which follows the pools."""
        name = "FelixConfiguration default .spec.ipipEnabled"
        for api in (V3, CRD):
            found = self._kube.find(api, "FelixConfiguration", "default")
            if found is not None:
                value = (found.get("spec") or {}).get("ipipEnabled")
                return {name: Fact("on" if value else "off", f"{value} ({api})".lower())}
        return {name: Fact("off", "there is no FelixConfiguration default: it follows the pools")}
