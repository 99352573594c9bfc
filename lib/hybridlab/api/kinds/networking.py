# SPDX-License-Identifier: Apache-2.0
"""NetworkPolicies, Endpoints, EndpointSlices, Leases, Events, PodDisruptionBudgets: defaults and checks."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.errors import Cause, forbidden_field, invalid_value, required
from hybridlab.api.kinds.strategy import Strategy, fill, port_problems
from hybridlab.api.kinds.values import invalid_if, one_of, unchanged
from hybridlab.api.kinds.workloads import selector_problems

_PROTOCOLS = ("TCP", "UDP", "SCTP")


def cidr_problem(text: str) -> str | None:
    """Return the problem of a CIDR; None if it is valid."""
    with suppress(ValueError):
        ip_network(text, strict=False)
        if "/" in text:
            return None
    return "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


class NetworkPolicyStrategy(Strategy):
    """The rules of networking.k8s.io NetworkPolicies."""

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        spec.setdefault("podSelector", {})
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        spec = obj["spec"]
        yield from selector_problems(spec["podSelector"], "spec.podSelector")
        for index, kind in enumerate(spec["policyTypes"]):
            yield from one_of(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for index, rule in enumerate(spec.get(direction) or ()):
                at = f"spec.{direction}[{index}]"
                for number, port in enumerate(rule.get("ports") or ()):
                    yield from _port_problems(port, f"{at}.ports[{number}]")
                for number, peer in enumerate(rule.get(peers) or ()):
                    yield from _peer_problems(peer, f"{at}.{peers}[{number}]")

    def warnings(self, obj: Obj) -> Iterable[str]:
        return _ambiguous(obj["spec"])


def _port_problems(port: Obj, at: str) -> Iterator[Cause]:
    yield from one_of(f"{at}.protocol", port["protocol"], _PROTOCOLS)
    number = port.get("port")
    end = port.get("endPort")
    if isinstance(number, str):
        if end is not None:
            yield invalid_value(
                f"{at}.endPort", end, "may not be specified when `port` is non-numeric"
            )
        yield from port_problems(number, f"{at}.port")
    elif number is not None:
        yield from port_problems(number, f"{at}.port")
        if end is not None and end < number:
            # the real server shows the port here
            yield invalid_value(f"{at}.endPort", number, "must be greater than or equal to `port`")
    elif end is not None:
        yield invalid_value(
            f"{at}.endPort", end, "may not be specified when `port` is not specified"
        )


def _peer_problems(peer: Obj, at: str) -> Iterator[Cause]:
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if name in peer]
    if not given:
        yield required(at, "must specify a peer")
    if "ipBlock" in given and len(given) > 1:
        yield forbidden_field(at, "may not specify both ipBlock and another peer")
    yield from selector_problems(peer.get("podSelector"), f"{at}.podSelector")
    yield from selector_problems(peer.get("namespaceSelector"), f"{at}.namespaceSelector")
    block = peer.get("ipBlock")
    if block is None:
        return
    cidr = block.get("cidr", "")
    if problem := cidr_problem(cidr):
        yield invalid_value(f"{at}.ipBlock.cidr", cidr, problem)
        return
    whole: Any = ip_network(cidr, strict=False)
    for index, text in enumerate(block.get("except") or ()):
        here = f"{at}.ipBlock.except[{index}]"
        if problem := cidr_problem(text):
            yield invalid_value(here, text, problem)
            continue
        hole: Any = ip_network(text, strict=False)
        if hole.version != whole.version or not hole.subnet_of(whole) or hole == whole:
            yield invalid_value(here, text, "must be a strict subset of `cidr`")


def _ambiguous(spec: Obj) -> Iterator[str]:
    """Yield a warning for each CIDR with bits outside its prefix."""
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            for number, peer in enumerate(rule.get(peers) or ()):
                block = peer.get("ipBlock")
                if not block:
                    continue
                at = f"spec.{direction}[{index}].{peers}[{number}].ipBlock"
                holes = [
                    (f"{at}.except[{place}]", text)
                    for place, text in enumerate(block.get("except") or ())
                ]
                for here, text in [(f"{at}.cidr", block.get("cidr", "")), *holes]:
                    network = ip_network(text, strict=False)
                    given = ip_interface(text)
                    if given.ip != network.network_address:
                        either = f'"{network}" or "{given.ip}/{given.max_prefixlen}"'
                        yield f'{here}: CIDR value "{text}" is ambiguous in this context (should be {either}?)'


class EndpointsStrategy(Strategy):
    """The rules of Endpoints."""

    def default(self, obj: Obj) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        for index, subset in enumerate(obj.get("subsets") or ()):
            for group in ("addresses", "notReadyAddresses"):
                for number, address in enumerate(subset.get(group) or ()):
                    yield from _address_problems(
                        address["ip"], f"subsets[{index}].{group}[{number}].ip"
                    )


class EndpointSliceStrategy(Strategy):
    """The rules of EndpointSlices."""

    generation_without_spec = True
    unconditional_update = False

    def default(self, obj: Obj) -> None:
        obj.setdefault("endpoints", [])
        for endpoint in obj["endpoints"]:
            endpoint.setdefault("conditions", {})
        for port in obj.get("ports") or ():
            fill(port, protocol="TCP", name="")

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        kind = obj["addressType"]
        yield from one_of("addressType", kind, ("FQDN", "IPv4", "IPv6"))
        for index, endpoint in enumerate(obj["endpoints"]):
            for number, address in enumerate(endpoint.get("addresses") or ()):
                if kind != "FQDN":
                    yield from _address_problems(address, f"endpoints[{index}].addresses[{number}]")
        if old is not None:
            yield from unchanged("addressType", kind, old["addressType"])


def _address_problems(address: str, at: str) -> Iterator[Cause]:
    try:
        ip_address(address)
    except ValueError:
        yield invalid_value(
            at, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        )


class EventStrategy(Strategy):
    """The rules of Events."""

    counts_generations = False

    def default(self, obj: Obj) -> None:
        fill(obj, type="Normal", source={}, reportingComponent="", reportingInstance="")
        for key in ("firstTimestamp", "lastTimestamp", "eventTime"):
            obj.setdefault(key, None)

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        involved = (obj.get("involvedObject") or {}).get("namespace") or "default"
        return invalid_if(
            old is None and involved != obj["metadata"]["namespace"],
            "involvedObject.namespace",
            involved,
            "does not match event.namespace",
        )


class LeaseStrategy(Strategy):
    """The rules of Leases."""

    counts_generations = False
    unconditional_update = False

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        seconds = obj["spec"].get("leaseDurationSeconds")
        return invalid_if(
            seconds is not None and seconds <= 0,
            "spec.leaseDurationSeconds",
            seconds,
            "must be greater than 0",
        )


class DisruptionBudgetStrategy(Strategy):
    """The rules of PodDisruptionBudgets."""

    unconditional_update = False

    def prepare_create(self, obj: Obj) -> None:
        obj["status"] = {
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "disruptionsAllowed": 0,
            "expectedPods": 0,
        }

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        spec = obj["spec"]
        yield from selector_problems(spec.get("selector"), "spec.selector")
        if "minAvailable" in spec and "maxUnavailable" in spec:
            names = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
            shown = {name[0].upper() + name[1:]: spec.get(name) for name in names}
            yield invalid_value("spec", shown, "minAvailable and maxUnavailable cannot be both set")
