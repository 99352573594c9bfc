# SPDX-License-Identifier: Apache-2.0
"""Sets of policies as Hypothesis draws them, in the form of committed worlds; the API accepts all
of them.

Each is about one claim: staged policies belong to XPOL-14, Pass by ports to XPOL-6, rules with
services to XPOL-7, and everything else to POL-1. No two policies of a tier have the same order, and
no policy is for hosts.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

Obj = dict[str, Any]
CLAIMS = ("POL-1", "XPOL-6", "XPOL-7", "XPOL-14")

SELECTORS = (
    "all()",
    "x == '1'",
    "x == '2'",
    "has(y)",
    "!has(y)",
    "x != '1'",
    "y != '1'",
    "x in {'1', '13'}",
    "x not in {'2'}",
    "y not in {'1'}",
    "x starts with '1'",
    "x ends with '3'",
    "x contains '3'",
    "x == '1' && has(y)",
    "x == '2' || has(y)",
    "x == '2' && !has(y)",
    "os == 'windows'",
    "os == 'linux'",
    'x == "2"',
    "x == '1' || x == '2' && os == 'windows'",
    "x == '13' || has(y) && x == '1'",
    "!(x == '1' || x == '13')",
    "!(y == '1' && x == '2')",
    "has(y) && x == '2' && os == 'windows'",
    "y == '1' && x == '2' && os == 'linux'",
    "x == '7' || x == '1' || x == '13'",
    "x == '1' || x == '13' || x == '2'",
    "has(z)",
    "z == ''",
    "x in {'13'}",
    "x in {'2'}",
    "x in {'13', '2'}",
    "x not in {'1', '2'}",
    "x not in {'1', '13'}",
)
NAMESPACES = ("all()", "global()", "team == 'a'", "team == 'b'", "team != 'a'", "has(team)")
NAMESPACES_BY_NAME = ("projectcalico.org/name == '${b}'", "kubernetes.io/metadata.name == '${a}'")
OWN = "kubernetes.io/metadata.name in {'${a}', '${b}'}"
"""The limit of every GlobalNetworkPolicy to the world's own namespaces."""
SEATS = ("a.linux", "a.windows", "b.linux", "b.windows")
LABELS: tuple[Obj, ...] = (
    {},
    {"matchLabels": {"x": "1"}},
    {"matchLabels": {"x": "2"}},
    {"matchLabels": {"x": "2", "y": "1"}},
    {"matchExpressions": [{"key": "y", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "y", "operator": "DoesNotExist"}]},
    {"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["1"]}]},
    {"matchExpressions": [{"key": "x", "operator": "In", "values": ["1", "13"]}]},
    {"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["1", "13"]}]},
    {"matchExpressions": [{"key": "z", "operator": "Exists"}]},
    {
        "matchExpressions": [
            {"key": "y", "operator": "Exists"},
            {"key": "x", "operator": "In", "values": ["2"]},
        ]
    },
    {
        "matchExpressions": [
            {"key": "z", "operator": "DoesNotExist"},
            {"key": "x", "operator": "NotIn", "values": ["1"]},
        ]
    },
    {"matchLabels": {"x": "2"}, "matchExpressions": [{"key": "y", "operator": "Exists"}]},
    {
        "matchLabels": {"os": "windows"},
        "matchExpressions": [{"key": "x", "operator": "In", "values": ["1", "2"]}],
    },
)
TEAMS: tuple[Obj, ...] = (
    {},
    {"matchLabels": {"team": "a"}},
    {"matchLabels": {"team": "b"}},
    {"matchLabels": {"kubernetes.io/metadata.name": "${b}"}},
    {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]},
    {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "c"]}]},
)
NUMBERS: tuple[int | str, ...] = (
    8080,
    80,
    443,
    "80:100",
    "79:80",
    "8000:8080",
    "1:65535",
    "8080:9000",
    "8000:8079",
    "81:8079",
    "79:79",
)

SERVICES = tuple(
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "echo", "namespace": "${b}"},
        "spec": {"selector": chosen, "ports": [{"port": 8080, "protocol": protocol}]},
    }
    for chosen in ({"y": "1"}, {"x": "13"}, {"seat": "yes"})
    for protocol in ("TCP", "UDP")
)

seats = st.sampled_from(SEATS)
addresses = seats.map(lambda seat: f"${{{seat}}}/32")
every = st.just("0.0.0.0/0")
blocks = seats.map(lambda seat: f"${{{seat}}}/26")
selector = st.sampled_from(SELECTORS)
namespaces = st.sampled_from((*NAMESPACES, *NAMESPACES_BY_NAME))
accounts = st.sampled_from(
    (
        {"names": ["teller"]},
        {"names": ["default"]},
        {"selector": "may == 'pay'"},
        {"names": ["teller"], "selector": "may == 'look'"},
    )
)
directions = st.sampled_from((["Ingress"], ["Egress"], ["Ingress", "Egress"], None))


def some(strategy: SearchStrategy[Any], most: int = 2) -> SearchStrategy[list[Any]]:
    return st.lists(strategy, min_size=1, max_size=most, unique_by=str)


def at_most(most: int, **parts: SearchStrategy[Any]) -> SearchStrategy[Obj]:
    """Draw some of the fields, at most this number."""

    @st.composite
    def drawn(draw: DrawFn) -> Obj:
        keys = draw(st.lists(st.sampled_from(sorted(parts)), max_size=most, unique=True))
        return {key: draw(parts[key]) for key in keys}

    return drawn()


@st.composite
def end(draw: DrawFn, ports: bool) -> Obj:
    nets = some(st.one_of(addresses, blocks, st.just("0.0.0.0/0")))
    made = draw(
        at_most(
            2,
            selector=st.one_of(selector, selector, st.just("role == 'set'")),
            namespaceSelector=namespaces,
            nets=nets,
            notSelector=selector,
            notNets=some(st.one_of(addresses, blocks), 1),
            serviceAccounts=accounts,
        )
    )
    if ports:
        number = st.one_of(
            st.sampled_from(NUMBERS), st.sampled_from(NUMBERS), st.sampled_from(("echo", "page"))
        )
        made |= draw(
            st.one_of(
                st.fixed_dictionaries({"ports": some(number, 1)}),
                st.fixed_dictionaries(
                    {"ports": st.lists(number, min_size=2, max_size=3, unique_by=str)}
                ),
                st.fixed_dictionaries({"notPorts": some(st.sampled_from(NUMBERS), 1)}),
                st.just({}),
            )
        )
    return made


@st.composite
def rule(draw: DrawFn, actions: tuple[str, ...], claim: str, direction: str) -> Obj:
    made: Obj = {"action": draw(st.sampled_from(actions))}
    protocols = (None, None, "TCP", "UDP", 6, 17, "not TCP", "not UDP", "ICMP", "SCTP")
    protocol = draw(st.sampled_from(protocols))
    if isinstance(protocol, str) and protocol.startswith("not "):
        made["notProtocol"] = protocol.removeprefix("not ")
    elif protocol is not None:
        made["protocol"] = protocol
    if protocol is None and draw(st.integers(0, 9)) == 0:
        made["ipVersion"] = draw(st.sampled_from((4, 6)))
        return made
    numbered = protocol in {"TCP", "UDP", "SCTP", 6, 17} and (
        claim == "XPOL-6" or made["action"] != "Pass"
    )
    if claim == "XPOL-7" and draw(st.booleans()):
        # not every release reads a service that stands beside another field
        side, other = (
            ("destination", "source") if direction == "egress" else ("source", "destination")
        )
        beside = draw(st.sampled_from(({}, {}, {other: {"selector": "has(y)"}})))
        return {
            "action": made["action"],
            side: {"services": {"name": "echo", "namespace": "${b}"}},
            **beside,
        }
    for side in ("source", "destination"):
        if draw(st.sampled_from((False, False, True))) or (
            numbered and side == "destination" and draw(st.booleans())
        ):
            found = draw(end(numbered and side == "destination"))
            if found:
                made[side] = found
    if numbered and "source" not in made and draw(st.integers(0, 5)) == 0:
        made["source"] = {"ports": draw(st.sampled_from((["1:1000"], ["1024:65535"])))}
    return made


@st.composite
def calico(draw: DrawFn, tiers: list[str], claim: str) -> Obj:
    kinds = ["NetworkPolicy", "NetworkPolicy", "GlobalNetworkPolicy"]
    if claim == "XPOL-14":
        kinds += ["StagedNetworkPolicy", "StagedGlobalNetworkPolicy"]
    kind = draw(st.sampled_from(kinds))
    spec: Obj = {}
    tier = draw(st.sampled_from(["", "", "default", *tiers, *tiers]))
    if tier:
        spec["tier"] = tier
    if "Global" in kind:
        spec["namespaceSelector"] = draw(
            st.sampled_from((OWN, f"{OWN} && team == 'a'", f"{OWN} && team != 'a'"))
        )
    chosen = draw(st.one_of(selector, st.none()))
    if chosen:
        spec["selector"] = chosen
    if draw(st.integers(0, 7)) == 0:
        spec["serviceAccountSelector"] = "may == 'pay'"
    types = draw(directions)
    if types:
        spec["types"] = types
    actions = ("Allow", "Allow", "Deny", "Log", "Pass")
    for direction in ("ingress", "egress"):
        if types is None or direction.capitalize() in types:
            rules = draw(st.lists(rule(actions, claim, direction), max_size=3))
            if rules:
                spec[direction] = rules
    meta = {} if "Global" in kind else {"namespace": draw(st.sampled_from(("${a}", "${b}")))}
    return {"apiVersion": "projectcalico.org/v3", "kind": kind, "metadata": meta, "spec": spec}


@st.composite
def kubernetes_peer(draw: DrawFn) -> Obj:
    how = draw(st.sampled_from(("pods", "namespaces", "both", "both", "block", "except")))
    if how == "pods":
        return {"podSelector": draw(st.sampled_from(LABELS))}
    if how == "namespaces":
        return {"namespaceSelector": draw(st.sampled_from(TEAMS))}
    if how == "both":
        return {
            "podSelector": draw(st.sampled_from(LABELS)),
            "namespaceSelector": draw(st.sampled_from(TEAMS)),
        }
    seat = draw(seats)
    if how == "block":
        return {
            "ipBlock": {
                "cidr": draw(st.sampled_from((f"${{{seat}}}/32", f"${{{seat}}}/26", "0.0.0.0/0")))
            }
        }
    if draw(st.booleans()):
        return {"ipBlock": {"cidr": "0.0.0.0/0", "except": draw(some(addresses, 3))}}
    return {"ipBlock": {"cidr": f"${{{seat}}}/26", "except": [f"${{{seat}}}/32"]}}


@st.composite
def kubernetes_port(draw: DrawFn) -> Obj:
    made: Obj = draw(
        st.sampled_from(({}, {}, {"protocol": "TCP"}, {"protocol": "UDP"}, {"protocol": "SCTP"}))
    )
    several = ((8000, 9000), (8000, 8080), (8000, 8079), (79, 80), (79, 8079))
    value = draw(st.sampled_from((None, 8080, 80, "echo", "page", *several)))
    if isinstance(value, tuple):
        return {**made, "port": value[0], "endPort": value[1]}
    return {**made, "port": value} if value is not None else made or {"protocol": "TCP"}


@st.composite
def kubernetes(draw: DrawFn) -> Obj:
    spec: Obj = {"podSelector": draw(st.sampled_from(LABELS))}
    types = draw(directions)
    if types:
        spec["policyTypes"] = types
    for direction, side in (("ingress", "from"), ("egress", "to")):
        # rules of a direction to which the policy does not apply exist, and have no effect
        if types is None or direction.capitalize() in types or draw(st.integers(0, 3)) == 0:
            rules = draw(
                st.lists(
                    at_most(2, **{side: some(kubernetes_peer()), "ports": some(kubernetes_port())}),
                    max_size=2,
                )
            )
            if rules or types:
                spec[direction] = rules
    meta = {"namespace": draw(st.sampled_from(("${a}", "${b}")))}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": meta,
        "spec": spec,
    }


def orders(number: int) -> SearchStrategy[int]:
    """Draw an order for the policy of this number; no other policy may have the same."""
    return st.sampled_from(
        (100 + number, 2000 + number, 500 + number, -5 - number, *([0] if number == 1 else []))
    )


@st.composite
def network_set(draw: DrawFn) -> Obj:
    return {
        "apiVersion": "projectcalico.org/v3",
        "kind": "NetworkSet",
        "metadata": {
            "name": "set",
            "namespace": draw(st.sampled_from(("${a}", "${b}"))),
            "labels": {"role": "set"},
        },
        "spec": {
            "nets": draw(
                st.lists(
                    st.one_of(addresses, addresses, blocks, every),
                    min_size=1,
                    max_size=3,
                    unique=True,
                )
            )
        },
    }


@st.composite
def worlds(draw: DrawFn, claim: str = "POL-1") -> list[Obj]:
    """Draw the objects of a world, in symbols."""
    named = draw(st.sampled_from(([], ["${a}-one"], ["${a}-one", "${a}-two"])))
    if claim == "XPOL-6" and not named:
        named = ["${a}-one"]
    made: list[Obj] = []
    step = draw(st.sampled_from((10, -10)))  # the names are in alphabetical order
    for number, name in enumerate(named):
        end_of = draw(st.sampled_from(("Deny", "Pass")))
        spec = {"order": 5000 + step * number, "defaultAction": end_of}
        made.append(
            {
                "apiVersion": "projectcalico.org/v3",
                "kind": "Tier",
                "metadata": {"name": name},
                "spec": spec,
            }
        )
    if draw(st.booleans()):
        made.append(draw(network_set()))
    if claim == "XPOL-7":
        made.append(draw(st.sampled_from(SERVICES)))
    policies = draw(
        st.lists(
            st.one_of(kubernetes(), calico(named, claim), calico(named, claim)),
            min_size=1,
            max_size=4,
        )
    )
    last = draw(st.integers(0, 3))
    # several policies of the same name, of other kinds or in other namespaces
    namesakes = draw(st.integers(0, 3)) == 0
    for number, policy in enumerate(policies):
        name = "p" if namesakes and number else f"p{number}"
        if policy["apiVersion"].startswith("projectcalico"):
            if number != last:  # at most one policy has no order
                policy["spec"]["order"] = draw(orders(number))
            tier = policy["spec"].get("tier")
            if tier and tier != "default":
                name = f"{tier}.{name}"
            elif "Global" in policy["kind"]:
                name = f"${{a}}-{name}"
        policy["metadata"]["name"] = name
    return made + policies
