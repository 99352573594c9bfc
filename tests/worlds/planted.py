# SPDX-License-Identifier: Apache-2.0
"""Misreadings by which the worlds were not chosen: how many of them do the committed worlds show?

``python -m tests.worlds.planted`` (``make check-planted``) prints the files that show each, and
fails if fewer than four in five are shown. A misreading is defined by an edit of all objects, or of
the pods' identities.
"""

from __future__ import annotations

import copy
import ipaddress
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from conformance.policy import worlds
from conformance.policy.oracle.oracle import Oracle, of_way
from conformance.policy.oracle.world import World
from tests.worlds import planted_scopes
from tests.worlds.choose import Ends, ends, objects_of
from tests.worlds.seats import SEATS

Obj = dict[str, Any]
Whole = Callable[[list[Obj]], object]
"""Edits copies of all objects in place."""
FOLDER = Path(__file__).parents[2] / "suites" / "policy" / "worlds"
LEAST = 0.8
DIRECTIONS = ("ingress", "egress")


def policies(objects: Sequence[Obj], api: str = "") -> Iterator[Obj]:
    """Yield the specs of policies."""
    for obj in objects:
        if obj["kind"].endswith("NetworkPolicy") and str(obj["apiVersion"]).startswith(api):
            yield obj["spec"]


def rules(objects: Sequence[Obj], api: str = "") -> Iterator[tuple[str, Obj]]:
    """Yield (direction, rule)."""
    for spec in policies(objects, api):
        for way in DIRECTIONS:
            yield from ((way, rule) for rule in spec.get(way) or ())


NETS = ("nets", "notNets")
CALICO, K8S = "projectcalico.org", "networking.k8s.io"


def shared_sets(objects: list[Obj]) -> None:
    """If peers of two namespaces have the same selector text, use the last namespace's members for
    both."""
    homes: dict[str, str] = {}
    found = []
    for obj in objects:
        if obj["kind"] != "NetworkPolicy" or not obj["apiVersion"].startswith(CALICO):
            continue
        for _, rule in rules([obj]):
            for side in ("source", "destination"):
                end = rule.get(side) or {}
                if end.get("selector") and not end.get("namespaceSelector"):
                    homes[end["selector"]] = obj["metadata"]["namespace"]
                    found.append(end)
    for end in found:
        end["namespaceSelector"] = f"kubernetes.io/metadata.name == '{homes[end['selector']]}'"


def other_namespace(objects: list[Obj]) -> None:
    """Search for peers without a namespaceSelector in the other namespaces."""
    for obj in objects:
        if obj["kind"] == "NetworkPolicy" and obj["apiVersion"].startswith(CALICO):
            for _, rule in rules([obj]):
                for side in ("source", "destination"):
                    end = rule.get(side) or {}
                    if end.get("selector") and not end.get("namespaceSelector"):
                        space = obj["metadata"]["namespace"]
                        end["namespaceSelector"] = f"kubernetes.io/metadata.name != '{space}'"


def first_of_each_action(objects: list[Obj]) -> None:
    """Keep only the first rule of each action in a policy."""
    for spec in policies(objects, CALICO):
        for way in DIRECTIONS:
            if spec.get(way):
                spec[way] = list({rule["action"]: rule for rule in reversed(spec[way])}.values())[
                    ::-1
                ]


def allow_first(objects: list[Obj]) -> None:
    """Move a policy's Allow rules before its other rules."""
    for spec in policies(objects, CALICO):
        for way in DIRECTIONS:
            if spec.get(way):
                spec[way] = sorted(spec[way], key=lambda rule: rule["action"] != "Allow")


def ports_of_the_other_end(objects: list[Obj]) -> None:
    """Read destination ports of ingress as source ports."""
    for way, rule in rules(objects, CALICO):
        if way == "ingress" and (rule.get("destination") or {}).get("ports"):
            rule.setdefault("source", {})["ports"] = rule["destination"].pop("ports")


def answers_open_the_way(objects: list[Obj]) -> None:
    """Allow also connections to each peer that a policy admits."""
    for spec in policies(objects, CALICO):
        if "Egress" in (spec.get("types") or ()):
            let_in = [rule for rule in spec.get("ingress") or () if rule["action"] == "Allow"]
            spec["egress"] = [
                *({"action": "Allow", "destination": rule.get("source") or {}} for rule in let_in),
                *(spec.get("egress") or ()),
            ]


def keys_of_labels(value: Any) -> None:
    """Ignore the values of matchLabels."""
    if isinstance(value, dict):
        wanted = value.pop("matchLabels", None) or {}
        if wanted:
            found = [{"key": key, "operator": "Exists"} for key in wanted]
            value["matchExpressions"] = [*(value.get("matchExpressions") or ()), *found]
    for inner in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        keys_of_labels(inner)


def no_rules_open(objects: list[Obj]) -> None:
    """Let a policy without rules in its direction allow everything there."""
    for spec in policies(objects, K8S):
        for kind in spec.get("policyTypes") or ():
            spec[kind.lower()] = spec.get(kind.lower()) or [{}]


def own_namespace_beside(objects: list[Obj]) -> None:
    """Add the policy's own namespace to peers by namespaces."""
    for _, rule in rules(objects, K8S):
        for side in ("from", "to"):
            if any("namespaceSelector" in peer for peer in rule.get(side) or ()):
                rule[side].append({"podSelector": {}})


def without_udp(objects: list[Obj]) -> None:
    """Lose rules for UDP."""
    for spec in policies(objects, CALICO):
        for way in DIRECTIONS:
            if spec.get(way):
                spec[way] = [rule for rule in spec[way] if rule.get("protocol") != "UDP"]


def one_label(objects: list[Obj]) -> None:
    """Keep only the first label of each pod."""
    for obj in objects:
        if obj["kind"] == "Pod":
            obj["metadata"]["labels"] = dict(
                list((obj["metadata"].get("labels") or {}).items())[:1]
            )


def namespaces_alike(objects: list[Obj]) -> None:
    """Give all namespaces the labels of the last namespace."""
    found = [obj["metadata"] for obj in objects if obj["kind"] == "Namespace"]
    last = found[-1].get("labels") or {}
    for meta in found:
        names = {key: value for key, value in (meta.get("labels") or {}).items() if "/" in key}
        meta["labels"] = {**{key: value for key, value in last.items() if "/" not in key}, **names}


def default_accounts(objects: list[Obj]) -> None:
    """Give every pod the default account."""
    for obj in objects:
        if obj["kind"] == "Pod":
            obj["spec"].pop("serviceAccountName", None)


def to_the_end(objects: list[Obj]) -> None:
    """Ignore endPort: allow all ports up to the last."""
    for _, rule in rules(objects, K8S):
        for port in rule.get("ports") or ():
            if port.get("endPort"):
                port["endPort"] = 65535


def both_directions(objects: list[Obj]) -> None:
    """Apply a policy with one direction to both directions."""
    for spec in policies(objects, CALICO):
        spec["types"] = ["Ingress", "Egress"]


def network_sets_of_all(objects: list[Obj]) -> None:
    """Let NetworkSets belong to all namespaces."""
    for obj in objects:
        if obj["kind"] == "NetworkSet":
            obj["kind"] = "GlobalNetworkSet"
            del obj["metadata"]["namespace"]


def middle_tier(objects: list[Obj]) -> None:
    """Make Pass the default action of every tier but the first."""
    tiers = sorted(
        (obj for obj in objects if obj["kind"] == "Tier"),
        key=lambda one: one["spec"].get("order", 0),
    )
    for tier in tiers[1:]:
        if tier["metadata"]["name"] != "default":
            tier["spec"]["defaultAction"] = "Pass"


def masks_of_octets(objects: list[Obj]) -> None:
    """Round the prefix length of each network down to whole octets."""

    def rounded(text: str) -> str:
        address, _, length = text.partition("/")
        return f"{ipaddress.ip_interface(f'{address}/{int(length) // 8 * 8}').network}"

    for _, rule in rules(objects):
        for side in ("source", "destination"):
            end = rule.get(side) or {}
            end.update({name: [*map(rounded, end[name])] for name in NETS if end.get(name)})
        for peer in (peer for side in ("from", "to") for peer in rule.get(side) or ()):
            if "ipBlock" in peer:
                peer["ipBlock"]["cidr"] = rounded(peer["ipBlock"]["cidr"])


def pods_for_namespaces(world: World) -> None:
    """Match a namespace by the labels of its pods, too."""
    for name, pod in world.pods.items():
        labels = {**(pod.namespace_labels or {}), **(pod.own or {})}
        world.pods[name] = replace(pod, namespace_labels=labels)


OF_OBJECTS: tuple[Whole, ...] = (
    shared_sets,
    other_namespace,
    first_of_each_action,
    allow_first,
    ports_of_the_other_end,
    answers_open_the_way,
    keys_of_labels,
    no_rules_open,
    own_namespace_beside,
    without_udp,
    one_label,
    namespaces_alike,
    default_accounts,
    to_the_end,
    both_directions,
    network_sets_of_all,
    middle_tier,
    masks_of_octets,
    *planted_scopes.OF_OBJECTS,
)
OF_WORLDS: tuple[Callable[[World], None], ...] = (pods_for_namespaces,)


def seen() -> dict[str, list[str]]:
    """Map each misreading to the files that show it: the verdict on some cell differs at a pod."""
    every = (*OF_OBJECTS, *OF_WORLDS, *planted_scopes.AT_A_POD)
    found: dict[str, list[str]] = {one.__name__: [] for one in every}
    for path in sorted(FOLDER.rglob("*.yaml")):
        if path.parent.name not in ("worlds", "edits"):
            continue
        objects = objects_of(worlds.read(path.stem, yaml.safe_load(path.read_text())))
        right = _verdicts(World(objects), objects)
        for edit in OF_OBJECTS:
            read = copy.deepcopy(objects)
            edit(read)
            if json.dumps(read) != json.dumps(objects) and _verdicts(World(read), read) != right:
                found[edit.__name__].append(path.stem)
        for misread in OF_WORLDS:
            world = World(objects)
            misread(world)
            if _verdicts(world, objects) != right:
                found[misread.__name__].append(path.stem)
        for there in planted_scopes.AT_A_POD:
            if _at_pods(there, objects) != right:
                found[there.__name__].append(path.stem)
    return found


def _at_pods(misread: Callable[[list[Obj], str], object], objects: list[Obj]) -> list[Any]:
    """Return the verdicts on all cells; each end reads the objects as its own node does."""
    by_pod: dict[str, Ends] = {}
    for seat in SEATS:
        read = copy.deepcopy(objects)
        misread(read, seat.pod)
        by_pod[seat.pod] = ends(Oracle(World(read), read))
    pairs = next(iter(by_pod.values())).seats
    return [
        of_way(by_pod[seat.pod].decided[number][end] for end, seat in enumerate(pair))
        for number, pair in enumerate(pairs)
    ]


def _verdicts(world: World, objects: Sequence[Obj]) -> list[Any]:
    return [of_way(pair) for pair in ends(Oracle(world, objects)).decided]


def main() -> int:
    """Print the files that show each misreading, and the share of misreadings that are shown."""
    found = seen()
    for name, files in found.items():
        print(f"{name}: {len(files)} {' '.join(files[:3])}")
    number = sum(map(bool, found.values()))
    print(f"{number} of {len(found)} are seen ({number / len(found):.0%})")
    return 0 if number >= LEAST * len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
