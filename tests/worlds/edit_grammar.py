# SPDX-License-Identifier: Apache-2.0
"""Single edits of worlds as Hypothesis draws them: of one object, or of labels, each with the claim
to which it belongs.

A change of only a policy's rules belongs to XPOL-12 if the policy's tier is the only tier, and to
XPOL-13 in a later tier. All other changes belong to POL-1, and are made only in worlds with a
single tier.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from conformance.policy.oracle import fields
from conformance.policy.worlds import World
from tests.worlds import grammar
from tests.worlds.editing import is_policy

Obj = dict[str, Any]
DIRECTIONS = ("ingress", "egress")
RULES = ("XPOL-12", "XPOL-13")
MOST = 4
"""The maximum number of fields that one edit changes."""
RELABELLED = ({"x": "1"}, {"x": "2"}, {"x": "2", "y": "1"}, {"x": "13"}, {"y": "1"})


def _is_calico(obj: Obj) -> bool:
    return str(obj["apiVersion"]).startswith("projectcalico")


def tiers_in_order(objects: list[Obj]) -> list[str]:
    """Return the tiers with policies, in order; a world's own tiers all come before the default
    tier."""
    tiers = sorted(
        (obj for obj in objects if obj["kind"] == "Tier"),
        key=lambda tier: float(tier["spec"]["order"]),
    )
    own = [obj["metadata"]["name"] for obj in tiers]
    used = {obj["spec"].get("tier", "default") for obj in objects if is_policy(obj)}
    return [name for name in (*own, "default") if name in used]


@st.composite
def edits(draw: DrawFn, claim: str = "POL-1", ways: tuple[str, ...] = ()) -> World:
    """Draw a world with an edit, in symbols; its name is empty. ``ways``: the possible subjects of
    POL-1's edits; none: any subject."""
    objects = draw(grammar.worlds())
    tiers = tiers_in_order(objects)
    assume(len(tiers) > 1 if claim == "XPOL-13" else len(tiers) == 1)
    policies = [obj for obj in objects if is_policy(obj)]
    if claim == "XPOL-13":
        policies = [obj for obj in policies if obj["spec"].get("tier", "default") != tiers[0]]
    edited = copy.deepcopy(draw(st.sampled_from(policies)))
    then: Obj = {}
    for _ in range(draw(st.integers(1, MOST))):  # all of one object, by one write
        more = draw(rule_edits(edited) if claim in RULES else other_edits(objects, edited, ways))
        then = (
            {"labels": {**then["labels"], **more["labels"]}}
            if then.keys() == more.keys() == {"labels"}
            else more
        )
    world = World("", claim, tuple(objects), then)
    assume(world.edited().objects != world.objects or world.edited().relabelled)
    return world


@st.composite
def rule_edits(draw: DrawFn, policy: Obj) -> Obj:
    """Draw the policy with other rules and no other change."""
    spec = policy["spec"]
    there = [direction for direction in DIRECTIONS if spec.get(direction)]
    assume(there)
    direction = draw(st.sampled_from(there))
    rules = spec[direction]
    calico = _is_calico(policy)
    at = draw(st.integers(0, len(rules) - 1))
    how = draw(
        st.sampled_from(
            ("action", "ports", "end", "add", "remove", "swap")
            if calico
            else ("entry", "add", "remove")
        )
    )
    actions = ("Allow", "Deny", "Pass", "Log")
    if how == "remove":
        assume(len(rules) > 1)
        rules.pop(at)
    elif how == "add":
        new = draw(grammar.rule(actions, "POL-1", direction)) if calico else {}
        rules.insert(draw(st.integers(0, len(rules))), new)
    elif how == "swap":
        assume(len(rules) > 1)
        rules.reverse()
    elif how == "action":
        rules[at]["action"] = draw(st.sampled_from(actions))
    elif how == "ports":
        end = rules[at].get("destination") or {}
        assume("ports" in end and rules[at]["action"] != "Pass")
        end["ports"] = draw(grammar.some(st.sampled_from(grammar.NUMBERS)))
    elif how == "end":
        side = draw(st.sampled_from(("source", "destination")))
        assume(rules[at].get(side))
        rules[at][side] = draw(grammar.end(ports=False)) or {"selector": "all()"}
    else:
        key = draw(st.sampled_from(sorted(rules[at]) or ["ports"]))
        strategy = grammar.kubernetes_port() if key == "ports" else grammar.kubernetes_peer()
        rules[at][key] = draw(grammar.some(strategy))
    return {"put": policy}


@st.composite
def other_edits(draw: DrawFn, objects: list[Obj], policy: Obj, ways: tuple[str, ...] = ()) -> Obj:
    """Draw an edit of anything but rules: order, selectors, types, created and deleted policies,
    members, labels."""
    spec, calico = policy["spec"], _is_calico(policy)
    sets = [obj for obj in objects if obj["kind"] == "NetworkSet"]
    usual = (
        "order",
        "selector",
        "types",
        "gone",
        "new",
        "space",
        "seat",
        "seat",
        *(["set"] * 3 if sets else []),
    )
    how = draw(st.sampled_from(ways or usual))
    if how == "gone":
        return {"gone": fields.label(policy)}
    if how == "seat":
        return {"labels": {draw(grammar.seats): draw(st.sampled_from(RELABELLED))}}
    if how == "space":
        return {
            "labels": {
                draw(st.sampled_from(("a", "b"))): {"team": draw(st.sampled_from(("a", "b", "c")))}
            }
        }
    if how == "set":
        assume(sets)
        new = copy.deepcopy(sets[0])
        new["spec"]["nets"] = draw(grammar.some(grammar.addresses))
        return {"put": new}
    if how == "order":
        assume(calico and "order" in spec)
        spec["order"] += 1900 if spec["order"] < 1000 else -1900
    elif how == "selector":
        spec["selector" if calico else "podSelector"] = draw(
            grammar.selector if calico else st.sampled_from(grammar.LABELS)
        )
    elif how == "types":
        there = {direction.capitalize() for direction in DIRECTIONS if spec.get(direction)}
        spec["types" if calico else "policyTypes"] = draw(
            grammar.directions.filter(lambda types: types is not None and there <= set(types))
        )
    else:
        new = draw(grammar.calico([], "POL-1"))
        new["spec"]["order"] = draw(st.sampled_from((50, 3000)))
        if spec.get("tier"):
            new["spec"]["tier"] = spec["tier"]
        in_tier = spec.get("tier", "default") != "default"
        tier, own = (
            (f"{spec['tier']}." if in_tier else ""),
            ("${a}-" if "Global" in new["kind"] else ""),
        )
        new["metadata"]["name"] = f"{tier}{own}new"
        return {"put": new}
    return {"put": policy}
