# SPDX-License-Identifier: Apache-2.0
"""Stories drawn at random, by hypothesis (installed by the extra ``explore``).

They have policies of both APIs and a NetworkSet in the run's own namespaces, and change only the
run's own objects, so that they may run on any cluster.
"""

from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from conformance.policy.oracle import fields
from conformance.policy.placeholders import Obj
from conformance.stories.model import story
from conformance.stories.model.lives import ONE_OF, TURNS, State, after
from conformance.stories.model.story import Story

Draw = Any
"""What hypothesis passes to composite strategies; it has no type of its own."""
CALICO = "projectcalico.org/v3"
CLAIM = "POL-1"
FEWEST = 3
MOST = 8
POLICIES = 3
SELECTED = ("role == 'member'", "x == '1'", "has(y)", "role == 'member' && has(y)")
ADDRESSES = ("${a.linux}/32", "${a.windows}/32", "${b.linux}/32", "${b.windows}/32")
PEERS: tuple[Obj, ...] = (
    {},
    {"selector": "role == 'friend'"},
    {"namespaceSelector": "team == 'b'", "selector": "x == '2'"},
    {"namespaceSelector": "team == 'a'"},
    {"namespaceSelector": "team == 'a'", "serviceAccounts": {"selector": "may == 'pay'"}},
    {"nets": [ADDRESSES[2]]},
    {"notNets": [ADDRESSES[3]]},
)
KUBERNETES_PEERS: tuple[Obj, ...] = (
    {"podSelector": {"matchLabels": {"role": "member"}}},
    {"namespaceSelector": {"matchLabels": {"team": "b"}}},
    {"namespaceSelector": {}, "podSelector": {"matchLabels": {"x": "2"}}},
    {"ipBlock": {"cidr": ADDRESSES[2]}},
)
TRAFFIC: tuple[tuple[str, tuple[int, ...]], ...] = (("TCP", ()), ("UDP", ()), ("TCP", (80,)))
LABELS: dict[str, tuple[dict[str, str], ...]] = {
    "a": ({"team": "a"}, {"team": "c"}),
    "b": ({"team": "b"}, {"team": "c"}),
    "a.teller": ({"may": "pay"}, {"may": "look"}),
    "m.linux": ({"role": "member", "x": "3"}, {"role": "member", "x": "1", "y": "1"}),
    "m.windows": ({"role": "member", "x": "3"}, {"role": "friend", "x": "1"}),
    "a.windows": ({"x": "2"}, {"role": "friend"}),
}


@st.composite
def rules(draw: Draw, side: str) -> Obj:
    """Draw a rule of a Calico policy; ``side``: the field of the rule that describes the other
    end."""
    protocol, ports = draw(st.sampled_from(TRAFFIC))
    rule: Obj = {"action": draw(st.sampled_from(("Allow", "Deny"))), "protocol": protocol}
    if peer := draw(st.sampled_from(PEERS)):
        rule[side] = deepcopy(peer)
    if ports:
        rule["destination"] = {**rule.get("destination", {}), "ports": list(ports)}
    return rule


@st.composite
def policies(draw: Draw, number: int) -> Obj:
    """Draw the policy with this number; no other policy has its name or its order. The last
    policy is Kubernetes'."""
    name = {"name": f"p{number}", "namespace": "${a}"}
    if number == POLICIES - 1:
        peers = draw(st.lists(st.sampled_from(KUBERNETES_PEERS), max_size=2))
        spec: Obj = {
            "podSelector": {"matchLabels": {"role": "member"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [deepcopy(peer)]} for peer in peers],
        }
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": name,
            "spec": spec,
        }
    direction = draw(st.sampled_from(("ingress", "egress")))
    side = "source" if direction == "ingress" else "destination"
    spec = {
        "order": draw(st.sampled_from((100, 2000))) + number,
        "selector": draw(st.sampled_from(SELECTED)),
        "types": [direction.capitalize()],
        direction: draw(st.lists(rules(side), min_size=1, max_size=3)),
    }
    return {"apiVersion": CALICO, "kind": "NetworkPolicy", "metadata": name, "spec": spec}


@st.composite
def sets(draw: Draw) -> Obj:
    """Draw the NetworkSet ``friends``."""
    nets = draw(st.lists(st.sampled_from(ADDRESSES), min_size=1, max_size=3, unique=True))
    name = {"name": "friends", "namespace": "${a}", "labels": {"role": "friend"}}
    return {"apiVersion": CALICO, "kind": "NetworkSet", "metadata": name, "spec": {"nets": nets}}


def objects() -> st.SearchStrategy[Obj]:
    """Draw any object of a story."""
    return st.one_of(*(policies(number) for number in range(POLICIES)), sets())


@st.composite
def edits(draw: Draw, there: set[str]) -> Obj:
    """Draw an event that edits objects; ``there``: labels of the objects that may be deleted."""
    kind = draw(st.sampled_from(("put", "labels", "gone") if there else ("put", "labels")))
    if kind == "gone":
        return {"gone": draw(st.sampled_from(sorted(there)))}
    if kind == "put":
        return {"put": draw(objects())}
    whose = draw(st.sampled_from(sorted(LABELS)))
    return {"labels": {whose: dict(draw(st.sampled_from(LABELS[whose])))}}


@st.composite
def stories(draw: Draw) -> Story:
    """Draw a story of three to eight events."""
    first = [draw(policies(0)), *draw(st.lists(objects(), max_size=2))]
    made = {fields.label(obj): obj for obj in first}
    there = set(made)
    members: State = "there"
    told: list[Obj] = []
    for _ in range(draw(st.integers(FEWEST, MOST))):
        excluding = ONE_OF & {one.get("pods") for one in told}
        never = ONE_OF - excluding if excluding else set()
        can = sorted(turn for turn in TURNS if after(members, turn) and turn not in never)
        event = {"pods": draw(st.sampled_from(can))} if draw(st.booleans()) else draw(edits(there))
        if "pods" in event:
            members = after(members, event["pods"]) or members
        there |= {fields.label(event["put"])} if "put" in event else set()
        there -= {event.get("gone", "")}
        told.append(event)
    return story.read("drawn", {"claim": CLAIM, "objects": list(made.values()), "events": told})
