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

    def __init__(self, kube: Kube, calico: CalicoObjects, look: Callable[[str], LinuxFacts]) -> None:
        self._kube, self._calico, self._look = kube, calico, look

    def to_blocks(self, linux: str) -> dict[str, Fact[str]]:
        """How a Linux node routes each block of Windows nodes: ``one route for the whole block``, or otherwise."""
        seen = {
            ipaddress.IPv4Network(route.destination): f"{route.destination} dev {route.device}"
            for route in self._look(linux).routes
        }
        found = {}
        for name, blocks in self._calico.blocks().items():
            for cidr in map(ipaddress.IPv4Network, blocks.value or []):
                inside = [text for net, text in seen.items() if net.subnet_of(cidr) and net != cidr]
                value = f"routes within it: {', '.join(inside)}" if inside else AGGREGATED
                found[f"route of node {linux} to {cidr} of {name.removeprefix('blocks of ')}"] = Fact(
                    value if cidr in seen else "no route for the whole block", f"ip route on node {linux}"
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
