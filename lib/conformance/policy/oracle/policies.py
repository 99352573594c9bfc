# SPDX-License-Identifier: Apache-2.0
"""Policies and tiers: whom they concern, in which directions, in which order.

Sources: Calico's reference, NetworkPolicy, GlobalNetworkPolicy, Tier and the staged kinds; Kubernetes' reference,
NetworkPolicy.  A Kubernetes policy is one of order 1000 in the default tier.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from conformance.errors import UsageProblem
from conformance.policy.oracle import fields, rules
from conformance.policy.oracle.fields import Obj
from conformance.policy.oracle.rules import Rule
from conformance.policy.oracle.world import Pod
from conformance.policy.selectors import calico, calico_namespaces, kubernetes

Direction = Literal["ingress", "egress"]
DIRECTIONS: tuple[Direction, Direction] = ("ingress", "egress")

DEFAULT_TIER = "default"
KUBERNETES_ORDER = 1000.0
LAST = math.inf
"""The order of what says none."""

_CALICO = ("projectcalico.org/", "crd.projectcalico.org/")
_KUBERNETES = "networking.k8s.io/"
_NOT_READ = ("AdminNetworkPolicy", "BaselineAdminNetworkPolicy", "ClusterNetworkPolicy")
_SPEC = frozenset(
    {
        "tier",
        "order",
        "selector",
        "types",
        "ingress",
        "egress",
        "serviceAccountSelector",
        "performanceHints",
    }
    | {"stagedAction"}
)
_GLOBAL_SPEC = _SPEC | {"namespaceSelector", "doNotTrack", "preDNAT", "applyOnForward"}
_KUBERNETES_SPEC = frozenset({"podSelector", "policyTypes", "ingress", "egress", "stagedAction"})


@dataclass(frozen=True)
class Tier:
    """A tier; what reaches its end meets ``end``."""

    name: str
    order: float
    end: Literal["Deny", "Pass"]


@dataclass(frozen=True, eq=False)
class Policy:
    """One policy."""

    label: str
    """``NetworkPolicy shop/web``."""
    tier: str
    order: float
    concerns: Callable[[Pod], bool]
    """Whether it selects a pod; staged ones too, which the promise passes over."""
    rules: Mapping[Direction, tuple[Rule, ...]]
    """Of the directions that it is about, Log rules left out."""
    staged: bool = False


def tiers(objects: Iterable[Obj]) -> dict[str, Tier]:
    """The tiers by name; the default one is always there.  Raises UsageProblem."""
    found = {DEFAULT_TIER: Tier(DEFAULT_TIER, 1_000_000.0, "Deny")}
    for obj in objects:
        if obj.get("kind") != "Tier":
            continue
        label = fields.label(obj)
        name = obj["metadata"]["name"]
        spec = fields.mapping(obj.get("spec"), label, {"order", "defaultAction"})
        end = fields.one_of(
            spec.get("defaultAction") or "Deny", f"{label} defaultAction", {"Deny", "Pass"}
        )
        found[name] = Tier(name, _order(spec, label), "Pass" if end == "Pass" else "Deny")
    return found


def policies(objects: Iterable[Obj]) -> list[Policy]:
    """The policies among the objects, in no order.  Raises UsageProblem for what cannot be read."""
    return [policy for obj in objects if (policy := policy_of(obj)) is not None]


def policy_of(obj: Obj) -> Policy | None:
    """A policy; None: an object of another kind.  Raises UsageProblem."""
    api = str(obj.get("apiVersion") or "")
    kind = str(obj.get("kind") or "")
    label = fields.label(obj)
    if kind in _NOT_READ:
        raise UsageProblem(
            f"{label}: policies of this kind are not read, so nothing can be said of what it selects"
        )
    bare = kind.removeprefix("Staged")
    if bare == "KubernetesNetworkPolicy" or (
        bare == "NetworkPolicy" and api.startswith(_KUBERNETES)
    ):
        return _kubernetes(obj, label, staged=kind != bare)
    if bare in {"NetworkPolicy", "GlobalNetworkPolicy"}:
        if not api.startswith(_CALICO):
            raise UsageProblem(f"{label}: apiVersion {api!r} has no such policy")
        return _calico(obj, label, is_global=bare == "GlobalNetworkPolicy", staged=kind != bare)
    return None


def _order(spec: Obj, where: str) -> float:
    return LAST if spec.get("order") is None else fields.number(spec["order"], f"{where} order")


def _calico(obj: Obj, label: str, *, is_global: bool, staged: bool) -> Policy:
    spec = fields.mapping(obj.get("spec"), label, _GLOBAL_SPEC if is_global else _SPEC)
    home = None if is_global else str(obj["metadata"].get("namespace") or "default")
    given = {
        direction: fields.sequence(spec.get(direction), f"{label} {direction}")
        for direction in DIRECTIONS
    }
    types = _types(spec.get("types"), f"{label} types") or _implied(
        given["ingress"], given["egress"]
    )

    def each(direction: Direction) -> Iterator[Rule]:
        for number, one in enumerate(given[direction], start=1):
            rule = rules.of_calico(one, home, f"{direction} rule {number}", label)
            if rule is not None:
                yield rule

    every = {direction: tuple(each(direction)) for direction in DIRECTIONS}
    return Policy(
        label=label,
        tier=str(spec.get("tier") or DEFAULT_TIER),
        order=_order(spec, label),
        concerns=_concerned(spec, home, label),
        rules={direction: every[direction] for direction in types},
        staged=staged,
    )


def _implied(ingress: Any, egress: Any) -> list[Direction]:
    """What a policy is about that does not say it: what it has rules for, and ingress without any."""
    said = {"ingress": bool(ingress or not egress), "egress": bool(egress)}
    return [direction for direction in DIRECTIONS if said[direction]]


def _types(given: Any, where: str) -> list[Direction]:
    listed = [
        fields.one_of(one, where, {"Ingress", "Egress"}) for one in fields.sequence(given, where)
    ]
    return [direction for direction in DIRECTIONS if direction.capitalize() in listed]


def _concerned(spec: Obj, home: str | None, label: str) -> Callable[[Pod], bool]:
    own = fields.readable(calico(spec.get("selector")), f"{label} selector")
    spaces = fields.readable(
        calico_namespaces(spec.get("namespaceSelector")), f"{label} namespaceSelector"
    )
    accounts = fields.readable(
        calico(spec.get("serviceAccountSelector")), f"{label} serviceAccountSelector"
    )
    of_hosts = bool(spec.get("doNotTrack") or spec.get("preDNAT"))

    def concerned(pod: Pod) -> bool:
        return (
            not of_hosts
            and (home is None or pod.namespace == home)
            and own.holds(pod.labels)
            and spaces.holds(pod.namespace_labels)
            and accounts.holds(pod.account_labels)
        )

    return concerned


def _kubernetes(obj: Obj, label: str, *, staged: bool) -> Policy:
    label = label if staged else f"Kubernetes {label}"
    spec = fields.mapping(obj.get("spec"), label, _KUBERNETES_SPEC)
    home = str(obj["metadata"].get("namespace") or "default")
    selector = fields.readable(kubernetes(spec.get("podSelector") or {}), f"{label} podSelector")
    given = {
        direction: fields.sequence(spec.get(direction), f"{label} {direction}")
        for direction in DIRECTIONS
    }
    types = _types(spec.get("policyTypes"), f"{label} policyTypes") or _implied(
        True, given["egress"]
    )
    every = {
        direction: tuple(
            rule
            for number, one in enumerate(given[direction], start=1)
            for rule in rules.of_kubernetes(
                one, direction, home, f"{direction} rule {number}", label
            )
        )
        for direction in DIRECTIONS
    }
    return Policy(
        label=label,
        tier=DEFAULT_TIER,
        order=KUBERNETES_ORDER,
        concerns=lambda pod: pod.namespace == home and selector.holds(pod.own),
        rules={direction: every[direction] for direction in types},
        staged=staged,
    )
