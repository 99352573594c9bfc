# SPDX-License-Identifier: Apache-2.0
"""The rules for committed worlds, each with the reason for which it refuses a world."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from conformance.kube.guard import unlimited
from conformance.kube.ownership import Ownership
from conformance.policy import worlds
from conformance.policy.oracle import fields
from conformance.policy.oracle.oracle import Oracle, Verdict
from conformance.policy.oracle.panics import panics
from conformance.policy.oracle.policies import Policy
from conformance.policy.oracle.switches import DEFECTS, RELEASES, Switch, as_shipped
from conformance.policy.oracle.world import World as Surroundings
from conformance.policy.worlds import World
from tests.worlds.seats import ELSEWHERE, MANY, NAMESPACES, RUN, SEATS, around

Obj = dict[str, Any]

SETTLES = {
    "XPOL-6": Switch.COMBINED_PORTS,
    "XPOL-7": Switch.SERVICE_ALONE,
    "XPOL-14": Switch.STAGED,
}
"""Map the claims of known defects to the defect; no world of another claim may become red by it."""
FOR_HOSTS = ("doNotTrack", "preDNAT", "applyOnForward")
MAY_BE_EMPTY = ("podSelector", "namespaceSelector", "ingress", "egress", "spec", "selector")


def problems(world: World) -> Iterator[str]:
    """Yield the reasons why a world may not be committed; none: it may."""
    yield from _written(world.objects)
    filled = world.filled(SEATS, NAMESPACES)
    oracle = Oracle(Surroundings([*around(world), *filled]), filled)
    if oracle.without_tier:
        yield f"no tier: {oracle.without_tier}"
    if not oracle.policies:
        yield "no policy"
    yield from _of_its_claim(world)
    for policy in oracle.policies:
        for pod in oracle.world.pods.values():
            if pod.os == "windows" and policy.concerns(pod) and _names_sctp(policy):
                yield f"{policy.label} has SCTP at {pod}: HNS knows no SCTP (Azure/azure-container-networking#1442)"
            if pod.namespace not in NAMESPACES.values() and policy.concerns(pod):
                yield f"{policy.label} selects the bystander {pod}"
    yield from (
        f"Felix ends: {found}"
        for pod in oracle.world.pods.values()
        for found in panics(oracle, pod)
    )
    for obj in filled:
        reason = (
            unlimited(obj["kind"], obj["spec"], Ownership(RUN))
            if "GlobalNetworkPolicy" in obj["kind"]
            else ""
        )
        if reason:
            yield reason
    for cell in worlds.cells([*around(world), *filled], SEATS, world.claim):
        if Verdict.NOT_SAID in {cell.promised, cell.expected}:
            yield f"nothing is said of {cell.source.pod} to {cell.destination.pod}: {cell.decisions}"


def misled(world: World, sets: Sequence[Obj]) -> Iterator[str]:
    """Yield pairs that another worker's NetworkSets would decide if they existed at the same time.

    Selectors for all namespaces, or by labels that both workers' namespaces have, find these
    NetworkSets. Their addresses belong to other seats, unless they contain whole blocks. The test
    uses several nodes, since all seats of one node may be in one block.
    """
    own = [*worlds.surroundings(world, MANY, NAMESPACES), *world.filled(MANY, NAMESPACES)]
    there = [{"kind": "Namespace", "metadata": {"name": ELSEWHERE[space], "labels": labels}} for space, labels in
             worlds.NAMESPACE_LABELS.items()]  # fmt: skip
    for one in sets:
        blocks = [net for net in one["spec"]["nets"] if not net.endswith("/32")]
        if not blocks:
            continue
        beside = [*own, *there, {**one, "spec": {"nets": blocks}}]
        pairs = zip(
            *(worlds.cells(objects, MANY, world.claim) for objects in (own, beside)), strict=True
        )
        for cell, other in pairs:
            if (cell.expected, cell.claim) != (other.expected, other.claim):
                yield f"{cell.source.pod} to {cell.destination.pod} {cell.protocol} {cell.port}: {one['metadata']}"


def _names_sctp(policy: Policy) -> bool:
    return any(
        rule.protocol == fields.PROTOCOLS["sctp"]
        for rules in policy.rules.values()
        for rule in rules
    )


RULES = {"ingress", "egress"}


def edit_problems(world: World) -> Iterator[str]:
    """Yield the reasons why an edit may not be committed, including those of the world before and
    after it."""
    yield from problems(world)
    yield from problems(world.edited())
    rules_alone = world.claim in {"XPOL-12", "XPOL-13"}
    there = {fields.label(obj): obj for obj in world.objects}
    if rules_alone and (
        world.then.keys() != {"put"} or any(fields.label(put) not in there for put in world.puts)
    ):
        yield "it is no edit of policies' rules"
        return
    for put in world.puts:
        before = there.get(fields.label(put), put)["spec"]
        changed = {key for key in before | put["spec"] if before.get(key) != put["spec"].get(key)}
        if rules_alone and not changed <= RULES:
            yield f"it changes {changed}, not rules alone"
        if not rules_alone and changed & RULES:
            yield f"it changes {changed & RULES}, by which a release's stale rules could turn {world.claim} red"


def _of_its_claim(world: World) -> Iterator[str]:
    """Yield pairs in which a release's defect shows, unless the defect belongs to the world's own
    claim."""
    filled = world.filled(SEATS, NAMESPACES)
    oracle = Oracle(Surroundings([*around(world), *filled]), filled)
    for shipped in dict.fromkeys(map(as_shipped, RELEASES)):
        own = frozenset({SETTLES[world.claim]}) if world.claim in SETTLES else frozenset()
        for source, destination, at in worlds.ways(SEATS):
            sent = worlds.packet(source, destination, *at)
            for pod, way in oracle_ends(oracle, sent.source, sent.destination):
                verdicts = {
                    oracle.verdict(pod, way, sent, switches)
                    for switches in (shipped, shipped - DEFECTS | own & shipped)
                }
                if pod.os == "windows" and len(verdicts) > 1:
                    yield f"a defect of another claim shows from {source.pod} to {destination.pod}"
                    return


def oracle_ends(oracle: Oracle, source: int, destination: int) -> Iterator[tuple[Any, Any]]:
    for pod in oracle.world.pods.values():
        if pod.address == source:
            yield pod, "egress"
        if pod.address == destination:
            yield pod, "ingress"


def _written(objects: tuple[Obj, ...]) -> Iterator[str]:
    """Yield faults of notation: what Calico's or Kubernetes' validation refuses, and what would
    confuse a reader."""
    orders = []
    for obj in objects:
        spec = obj["spec"]
        if any(key in spec for key in FOR_HOSTS):
            yield f"{obj['metadata']['name']} is for hosts"
        if str(obj["kind"]).endswith("NetworkPolicy"):
            calico = str(obj["apiVersion"]).startswith("projectcalico")
            orders.append((spec.get("tier", "default"), spec.get("order") if calico else 1000))
            if calico:
                yield from _calico(obj)
        yield from _empty(spec)
    names = [(obj["apiVersion"], fields.label(obj)) for obj in objects]
    if len(set(names)) < len(names):
        yield f"two objects of one name: {names}"
    if len(set(orders)) < len([order for order in orders if order != ("default", 1000)]):
        yield f"two policies of one order: {orders}"


def _calico(obj: Obj) -> Iterator[str]:
    for direction in ("ingress", "egress"):
        if obj["spec"].get(direction) and direction.capitalize() not in obj["spec"].get(
            "types", [direction.capitalize()]
        ):
            yield f"{obj['metadata']['name']} has rules for a direction that it is not about"
        for rule in obj["spec"].get(direction) or []:
            ends = [rule.get(side) or {} for side in ("source", "destination")]
            if any("ports" in end or "notPorts" in end for end in ends) and "protocol" not in rule:
                yield f"{obj['metadata']['name']} has ports without a protocol"
            if any("0.0.0.0/0" in end.get("notNets", ()) for end in ends):
                yield f"{obj['metadata']['name']} has a negation of all addresses, which Calico's validation refuses"
            if rule.get("protocol") == "ICMP" and any(
                "ports" in end or "notPorts" in end for end in ends
            ):
                yield f"{obj['metadata']['name']} has ports of ICMP"


def _empty(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        if not value and key not in MAY_BE_EMPTY:
            yield f"{key} is empty"
        for name, inner in value.items():
            yield from _empty(inner, name)
    elif isinstance(value, list):
        if not value and key not in MAY_BE_EMPTY:
            yield f"{key} is empty"
        for inner in value:
            yield from _empty(inner, key if key in MAY_BE_EMPTY else "")
