# SPDX-License-Identifier: Apache-2.0
"""The errors that Calico's validator reports for policies (libcalico-go/lib/validator/v3): wrong
values, and wrong combinations of values.

Combinations that Felix cannot honour are accepted where Calico accepts them: services together with
a protocol or a source, negated named ports, Pass in the default tier.
"""

from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_network
from typing import Any, Final

from hybridlab.api.contract import Obj
from hybridlab.api.errors import Cause, invalid_value, unsupported
from hybridlab.api.kinds.values import in_range, invalid_if, malformed, one_of

SelectorProblem = Callable[[str], str | None]
"""A function that returns what is wrong with the syntax of a Calico selector, or None."""

ACTIONS: Final = ("Allow", "Deny", "Log", "Pass")
PROTOCOLS: Final = ("TCP", "UDP", "ICMP", "ICMPv6", "SCTP", "UDPLite")
_WITH_PORTS = {"TCP", "UDP", "SCTP", 6, 17, 132}
_GLOBAL = "global()"
_ONLY_IN_RULES = "global() can only be used in an EntityRule namespaceSelector"
_ONLY_ALONE = "global() can only be used by itself in an EntityRule namespaceSelector"
_CATCH_ALL = {"0.0.0.0/0", "::/0"}
_SIDES = ("source", "destination")


def policy_problems(kind: str, spec: Obj, selector_problem: SelectorProblem) -> Iterator[Cause]:
    """Return the problems of the spec of a policy of ``kind``."""
    types = spec.get("types") or []
    for index, given in enumerate(types):
        yield from one_of(f"spec.types[{index}]", given, ("Ingress", "Egress"))
    for given in ("Ingress", "Egress"):
        yield from invalid_if(
            types.count(given) > 1, "spec.types", types, f"'{given}' type specified more than once"
        )
    for field in ("selector", "serviceAccountSelector", "namespaceSelector"):
        text = spec.get(field)
        yield from _selector(text, f"spec.{field}", selector_problem)
        yield from invalid_if(_GLOBAL in str(text or ""), f"spec.{field}", text, _ONLY_IN_RULES)
    if "Global" in kind:
        yield from _global_problems(spec)
    for direction in ("ingress", "egress"):
        for index, rule in enumerate(spec.get(direction) or ()):
            at = f"spec.{direction}[{index}]"
            yield from _rule_problems(rule, at, selector_problem)
            yield from _direction_problems(rule, direction, at, clusterwide="Global" in kind)


def _global_problems(spec: Obj) -> Iterator[Cause]:
    """Return the problems of flags that only GlobalNetworkPolicies have."""
    untracked = spec.get("doNotTrack")
    before_dnat = spec.get("preDNAT")
    types = spec.get("types") or ()
    yield from invalid_if(
        untracked and before_dnat,
        "spec.preDNAT",
        True,
        "PreDNAT and DoNotTrack cannot both be true, for a given PolicySpec",
    )
    yield from invalid_if(
        before_dnat and spec.get("egress"),
        "spec.egress",
        "",
        "PreDNAT PolicySpec cannot have any Egress rules",
    )
    yield from invalid_if(
        before_dnat and "Egress" in types,
        "spec.types",
        types,
        "PreDNAT PolicySpec cannot have 'egress' Type",
    )
    yield from invalid_if(
        (untracked or before_dnat) and not spec.get("applyOnForward"),
        "spec.applyOnForward",
        False,
        "ApplyOnForward must be true if either PreDNAT or DoNotTrack is true, "
        "for a given PolicySpec",
    )


def _direction_problems(
    rule: Obj, direction: str, at: str, *, clusterwide: bool
) -> Iterator[Cause]:
    """Return the fields that a rule may not have in its direction, or in a policy without
    namespace.
    """
    refused = "destination" if direction == "ingress" else "source"
    yield from invalid_if(
        (rule.get(refused) or {}).get("services") is not None,
        f"{at}.{refused}.services",
        "",
        f"not allowed in {direction} rule {refused}",
    )
    yield from invalid_if(
        direction == "egress" and rule.get("http") is not None,
        f"{at}.http",
        "",
        "not allowed in egress rule",
    )
    for side in _SIDES:
        services = (rule.get(side) or {}).get("services")
        yield from invalid_if(
            clusterwide and services is not None and not services.get("namespace"),
            f"{at}.{side}.services.namespace",
            "",
            "must specify a namespace",
        )


def _rule_problems(rule: Obj, at: str, selector_problem: SelectorProblem) -> Iterator[Cause]:
    yield from one_of(f"{at}.action", rule["action"], ACTIONS)
    protocol = rule.get("protocol")
    for field in ("protocol", "notProtocol"):
        yield from _protocol_problems(rule.get(field), f"{at}.{field}")
    version = rule.get("ipVersion")
    if version not in {None, 4, 6}:
        yield unsupported(f"{at}.ipVersion", version, ("4", "6"))
    yield from _icmp_problems(rule, at)
    for name, wanted in (("ICMP", 4), ("ICMPv6", 6)):
        yield from invalid_if(
            name in {protocol, rule.get("notProtocol")} and version not in {None, wanted},
            f"{at}.ipVersion",
            version,
            f"must set ipversion to '{wanted}' with protocol {name.lower()}",
        )
    if rule.get("http") is not None:
        yield from invalid_if(
            protocol not in {None, "TCP"},
            f"{at}.protocol",
            protocol,
            "rules that specify HTTP fields must set protocol to TCP or empty",
        )
        yield from invalid_if(
            rule["action"] != "Allow", f"{at}.http", "", "only valid for Allow rules"
        )
    for side in _SIDES:
        yield from _entity_problems(
            rule.get(side) or {}, protocol, f"{at}.{side}", selector_problem
        )
    yield from _family_problems(rule, at)
    destination = rule.get("destination") or {}
    for field in ("ports", "notPorts"):
        yield from invalid_if(
            destination.get("services") is not None and destination.get(field),
            f"{at}.destination.{field}",
            destination.get(field),
            f"cannot specify {field.lower()} with a service selector",
        )


def _icmp_problems(rule: Obj, at: str) -> Iterator[Cause]:
    yield from invalid_if(
        rule.get("icmp") is not None and rule.get("protocol") not in {"ICMP", "ICMPv6"},
        f"{at}.icmp",
        "",
        "rules that specify ICMP fields must set protocol to ICMP",
    )
    for field in ("icmp", "notICMP"):
        fields = rule.get(field) or {}
        yield from invalid_if(
            fields.get("code") is not None and fields.get("type") is None,
            f"{at}.{field}.code",
            fields.get("code"),
            "ICMP code specified without an ICMP type",
        )


def _protocol_problems(value: object, at: str) -> Iterator[Cause]:
    if (
        isinstance(value, str)
        and value not in PROTOCOLS
        and not (value.isdigit() and 0 < int(value) < 256)
    ):
        yield unsupported(at, value, PROTOCOLS)
    elif isinstance(value, int):
        yield from in_range(at, value, 1, 255)


def _entity_problems(
    entity: Obj, protocol: Any, at: str, selector_problem: SelectorProblem
) -> Iterator[Cause]:
    for field in ("selector", "notSelector", "namespaceSelector"):
        yield from _selector(entity.get(field), f"{at}.{field}", selector_problem)
    accounts = (entity.get("serviceAccounts") or {}).get("selector")
    yield from _selector(accounts, f"{at}.serviceAccounts.selector", selector_problem)
    selector = entity.get("selector") or ""
    yield from invalid_if(_GLOBAL in selector, f"{at}.selector", selector, _ONLY_IN_RULES)
    namespaces = entity.get("namespaceSelector") or ""
    yield from invalid_if(
        "global(" in namespaces and "".join(namespaces.split()) != _GLOBAL,
        f"{at}.namespaceSelector",
        namespaces,
        _ONLY_ALONE,
    )
    for field in ("ports", "notPorts"):
        yield from invalid_if(
            entity.get(field) and protocol not in _WITH_PORTS,
            f"{at}.{field}",
            "",
            "rules that specify ports must set protocol to TCP or UDP or SCTP",
        )
        for index, port in enumerate(entity.get(field) or ()):
            yield from _port_problems(port, f"{at}.{field}[{index}]")
    for field in ("nets", "notNets"):
        yield from _rule_net_problems(
            entity.get(field) or [], f"{at}.{field}", negated=field == "notNets"
        )
    if entity.get("services") is not None:
        yield from _service_problems(entity, f"{at}.services")


def _service_problems(entity: Obj, at: str) -> Iterator[Cause]:
    yield from invalid_if(not entity["services"].get("name"), at, "", "must specify a service name")
    beside = (
        ("NamespaceSelector", ("namespaceSelector",)),
        ("Selector/NotSelector", ("selector", "notSelector")),
        ("ServiceAccounts", ("serviceAccounts",)),
        ("Nets/NotNets", ("nets", "notNets")),
    )
    for name, fields in beside:
        yield from invalid_if(
            any(entity.get(field) for field in fields),
            at,
            "",
            f"cannot specify {name} and Services on the same rule",
        )


def _family_problems(rule: Obj, at: str) -> Iterator[Cause]:
    """Yield the places where a rule has networks of both IP versions, or of an IP version other
    than the rule's own."""
    observed: set[int] = set()
    for side in _SIDES:
        for field in ("nets", "notNets"):
            given = (rule.get(side) or {}).get(field) or ()
            versions = {6 if ":" in str(net) else 4 for net in given}
            yield from invalid_if(
                rule.get("ipVersion") is not None and versions - {rule["ipVersion"]},
                f"{at}.{side}.{field}",
                given,
                "rule IP version doesn't match CIDR version",
            )
            yield from invalid_if(
                versions and len(versions | observed) > 1,
                f"{at}.{side}.{field}",
                given,
                "rule contains both IPv4 and IPv6 CIDRs",
            )
            observed |= versions


def _rule_net_problems(nets: Iterable[str], at: str, *, negated: bool) -> Iterator[Cause]:
    """Yield what is wrong with a rule's networks: each must have a prefix and no host bits."""
    for index, net in enumerate(nets):
        if not _is_cidr(net):
            yield invalid_value(f"{at}[{index}]", net, "invalid CIDR")
        elif negated and net in _CATCH_ALL:
            detail = "catch-all CIDR in negation creates logical contradiction (matches no traffic)"
            yield invalid_value(f"{at}[{index}]", net, detail)


def _is_cidr(net: str) -> bool:
    try:
        ip_network(net)
    except ValueError:
        return False
    return "/" in net


def _port_problems(port: object, at: str) -> Iterator[Cause]:
    first, colon, last = str(port).partition(":")
    if isinstance(port, int):
        right = 1 <= port <= 65535
    elif colon:
        right = first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last) <= 65535
    else:
        right = not first.isdigit() or 1 <= int(first) <= 65535
    detail = "port range invalid, port number must be between 1 and 65535"
    yield from invalid_if(not right, at, port, detail)


def _selector(text: object, at: str, selector_problem: SelectorProblem) -> Iterator[Cause]:
    if isinstance(text, str) and text:
        yield from malformed(at, text, selector_problem(text))
