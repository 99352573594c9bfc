"""What Calico's validator refuses in policies (libcalico-go/lib/validator/v3): values, and combinations of them.

Combinations that Felix cannot honour are accepted where Calico accepts them: services beside a protocol or a source,
negated named ports, Pass in the default tier.
"""

from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_network
from typing import Any, Final

from hybridlab.api.contract import Obj
from hybridlab.api.errors import Cause, invalid_value, unsupported

SelectorProblem = Callable[[str], str | None]
"""Says what is wrong with the syntax of a Calico selector, or None."""

ACTIONS: Final = ("Allow", "Deny", "Log", "Pass")
PROTOCOLS: Final = ("TCP", "UDP", "ICMP", "ICMPv6", "SCTP", "UDPLite")
_WITH_PORTS = {"TCP", "UDP", "SCTP", 6, 17, 132}
_GLOBAL = "global()"
_ONLY_IN_RULES = "global() can only be used in an EntityRule namespaceSelector"
_ONLY_ALONE = "global() can only be used by itself in an EntityRule namespaceSelector"
_CATCH_ALL = {"0.0.0.0/0", "::/0"}
_SIDES = ("source", "destination")


def policy_problems(kind: str, spec: Obj, selector_problem: SelectorProblem) -> Iterator[Cause]:
    """Return what is wrong with the spec of a policy of ``kind``."""
    types = spec.get("types") or []
    for index, given in enumerate(types):
        if given not in {"Ingress", "Egress"}:
            yield unsupported(f"spec.types[{index}]", given, ("Ingress", "Egress"))
    for given in ("Ingress", "Egress"):
        if types.count(given) > 1:
            yield invalid_value("spec.types", types, f"'{given}' type specified more than once")
    for field in ("selector", "serviceAccountSelector", "namespaceSelector"):
        yield from _selector(spec.get(field), f"spec.{field}", selector_problem)
        if _GLOBAL in str(spec.get(field) or ""):
            yield invalid_value(f"spec.{field}", spec[field], _ONLY_IN_RULES)
    if "Global" in kind:
        yield from _global_problems(spec)
    for direction in ("ingress", "egress"):
        for index, rule in enumerate(spec.get(direction) or ()):
            at = f"spec.{direction}[{index}]"
            yield from _rule_problems(rule, at, selector_problem)
            yield from _direction_problems(rule, direction, at, clusterwide="Global" in kind)


def _global_problems(spec: Obj) -> Iterator[Cause]:
    """Return what is wrong with flags that only GlobalNetworkPolicies have."""
    untracked = spec.get("doNotTrack")
    before_dnat = spec.get("preDNAT")
    if untracked and before_dnat:
        yield invalid_value(
            "spec.preDNAT",
            True,
            "PreDNAT and DoNotTrack cannot both be true, for a given PolicySpec",
        )
    if before_dnat and spec.get("egress"):
        yield invalid_value("spec.egress", "", "PreDNAT PolicySpec cannot have any Egress rules")
    if before_dnat and "Egress" in (spec.get("types") or ()):
        yield invalid_value(
            "spec.types", spec["types"], "PreDNAT PolicySpec cannot have 'egress' Type"
        )
    if (untracked or before_dnat) and not spec.get("applyOnForward"):
        detail = "ApplyOnForward must be true if either PreDNAT or DoNotTrack is true, for a given PolicySpec"
        yield invalid_value("spec.applyOnForward", False, detail)


def _direction_problems(
    rule: Obj, direction: str, at: str, *, clusterwide: bool
) -> Iterator[Cause]:
    """Return what a rule may not say in its direction, or in a policy without namespace."""
    refused = "destination" if direction == "ingress" else "source"
    if (rule.get(refused) or {}).get("services") is not None:
        yield invalid_value(
            f"{at}.{refused}.services", "", f"not allowed in {direction} rule {refused}"
        )
    if direction == "egress" and rule.get("http") is not None:
        yield invalid_value(f"{at}.http", "", "not allowed in egress rule")
    for side in _SIDES:
        services = (rule.get(side) or {}).get("services")
        if clusterwide and services is not None and not services.get("namespace"):
            yield invalid_value(f"{at}.{side}.services.namespace", "", "must specify a namespace")


def _rule_problems(rule: Obj, at: str, selector_problem: SelectorProblem) -> Iterator[Cause]:
    if rule["action"] not in ACTIONS:
        yield unsupported(f"{at}.action", rule["action"], ACTIONS)
    protocol = rule.get("protocol")
    for field in ("protocol", "notProtocol"):
        yield from _protocol_problems(rule.get(field), f"{at}.{field}")
    version = rule.get("ipVersion")
    if version not in {None, 4, 6}:
        yield unsupported(f"{at}.ipVersion", version, ("4", "6"))
    if rule.get("icmp") is not None and protocol not in {"ICMP", "ICMPv6"}:
        yield invalid_value(
            f"{at}.icmp", "", "rules that specify ICMP fields must set protocol to ICMP"
        )
    for field in ("icmp", "notICMP"):
        fields = rule.get(field) or {}
        if fields.get("code") is not None and fields.get("type") is None:
            yield invalid_value(
                f"{at}.{field}.code", fields["code"], "ICMP code specified without an ICMP type"
            )
    for name, wanted in (("ICMP", 4), ("ICMPv6", 6)):
        if name in {protocol, rule.get("notProtocol")} and version not in {None, wanted}:
            detail = f"must set ipversion to '{wanted}' with protocol {name.lower()}"
            yield invalid_value(f"{at}.ipVersion", version, detail)
    if rule.get("http") is not None:
        if protocol not in {None, "TCP"}:
            yield invalid_value(
                f"{at}.protocol",
                protocol,
                "rules that specify HTTP fields must set protocol to TCP or empty",
            )
        if rule["action"] != "Allow":
            yield invalid_value(f"{at}.http", "", "only valid for Allow rules")
    for side in _SIDES:
        yield from _entity_problems(
            rule.get(side) or {}, protocol, f"{at}.{side}", selector_problem
        )
    yield from _family_problems(rule, at)
    destination = rule.get("destination") or {}
    for field in ("ports", "notPorts"):
        if destination.get("services") is not None and destination.get(field):
            detail = f"cannot specify {field.lower()} with a service selector"
            yield invalid_value(f"{at}.destination.{field}", destination[field], detail)


def _protocol_problems(value: object, at: str) -> Iterator[Cause]:
    if (
        isinstance(value, str)
        and value not in PROTOCOLS
        and not (value.isdigit() and 0 < int(value) < 256)
    ):
        yield unsupported(at, value, PROTOCOLS)
    elif isinstance(value, int) and not 0 < value < 256:
        yield invalid_value(at, value, "must be between 1 and 255, inclusive")


def _entity_problems(
    entity: Obj, protocol: Any, at: str, selector_problem: SelectorProblem
) -> Iterator[Cause]:
    for field in ("selector", "notSelector", "namespaceSelector"):
        yield from _selector(entity.get(field), f"{at}.{field}", selector_problem)
    accounts = (entity.get("serviceAccounts") or {}).get("selector")
    yield from _selector(accounts, f"{at}.serviceAccounts.selector", selector_problem)
    if _GLOBAL in (entity.get("selector") or ""):
        yield invalid_value(f"{at}.selector", entity["selector"], _ONLY_IN_RULES)
    namespaces = entity.get("namespaceSelector") or ""
    if "global(" in namespaces and "".join(namespaces.split()) != _GLOBAL:
        yield invalid_value(f"{at}.namespaceSelector", namespaces, _ONLY_ALONE)
    for field in ("ports", "notPorts"):
        if entity.get(field) and protocol not in _WITH_PORTS:
            detail = "rules that specify ports must set protocol to TCP or UDP or SCTP"
            yield invalid_value(f"{at}.{field}", "", detail)
        for index, port in enumerate(entity.get(field) or ()):
            yield from _port_problems(port, f"{at}.{field}[{index}]")
    for field in ("nets", "notNets"):
        yield from _rule_net_problems(
            entity.get(field) or [], f"{at}.{field}", negated=field == "notNets"
        )
    if entity.get("services") is not None:
        yield from _service_problems(entity, f"{at}.services")


def _service_problems(entity: Obj, at: str) -> Iterator[Cause]:
    if not entity["services"].get("name"):
        yield invalid_value(at, "", "must specify a service name")
    beside = (
        ("NamespaceSelector", ("namespaceSelector",)),
        ("Selector/NotSelector", ("selector", "notSelector")),
        ("ServiceAccounts", ("serviceAccounts",)),
        ("Nets/NotNets", ("nets", "notNets")),
    )
    for name, fields in beside:
        if any(entity.get(field) for field in fields):
            yield invalid_value(at, "", f"cannot specify {name} and Services on the same rule")


def _family_problems(rule: Obj, at: str) -> Iterator[Cause]:
    """Return where networks of a rule are of both families, or not of the family that it says."""
    seen: set[int] = set()
    for side in _SIDES:
        for field in ("nets", "notNets"):
            given = (rule.get(side) or {}).get(field) or ()
            versions = {6 if ":" in str(net) else 4 for net in given}
            if rule.get("ipVersion") is not None and versions - {rule["ipVersion"]}:
                yield invalid_value(
                    f"{at}.{side}.{field}", given, "rule IP version doesn't match CIDR version"
                )
            if versions and len(versions | seen) > 1:
                yield invalid_value(
                    f"{at}.{side}.{field}", given, "rule contains both IPv4 and IPv6 CIDRs"
                )
            seen |= versions


def _rule_net_problems(nets: Iterable[str], at: str, *, negated: bool) -> Iterator[Cause]:
    """Return what is wrong with a rule's networks: each needs its prefix, and no bit of a host."""
    for index, net in enumerate(nets):
        try:
            ip_network(net)
        except ValueError:
            yield invalid_value(f"{at}[{index}]", net, "invalid CIDR")
            continue
        if "/" not in net:
            yield invalid_value(f"{at}[{index}]", net, "invalid CIDR")
        elif negated and net in _CATCH_ALL:
            detail = "catch-all CIDR in negation creates logical contradiction (matches no traffic)"
            yield invalid_value(f"{at}[{index}]", net, detail)


def _port_problems(port: object, at: str) -> Iterator[Cause]:
    detail = "port range invalid, port number must be between 1 and 65535"
    if isinstance(port, int):
        if not 1 <= port <= 65535:
            yield invalid_value(at, port, detail)
        return
    first, colon, last = str(port).partition(":")
    if colon:
        if not (first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last) <= 65535):
            yield invalid_value(at, port, detail)
    elif first.isdigit() and not 1 <= int(first) <= 65535:
        yield invalid_value(at, port, detail)


def _selector(text: object, at: str, selector_problem: SelectorProblem) -> Iterator[Cause]:
    if isinstance(text, str) and text and (problem := selector_problem(text)):
        yield invalid_value(at, text, problem)
