# SPDX-License-Identifier: Apache-2.0
"""Policies and tiers: the pods they apply to, their directions, and their order.

Sources: Calico's reference, NetworkPolicy, GlobalNetworkPolicy, Tier and the staged kinds;
Kubernetes' reference, NetworkPolicy. A Kubernetes policy counts as a policy of order 1000 in the
default tier.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from conformance.errors import UsageProblem
from conformance.policy.oracle import admin, calico_rules, fields, kubernetes_rules
from conformance.policy.oracle.fields import Obj
from conformance.policy.oracle.rules import Rule
from conformance.policy.oracle.switches import Minor
from conformance.policy.oracle.world import Member, Pod
from conformance.policy.selectors import calico, calico_namespaces, kubernetes
from conformance.policy.truth import Truth, all_of

Direction = Literal["ingress", "egress"]
DIRECTIONS: tuple[Direction, Direction] = ("ingress", "egress")

DEFAULT_TIER = "default"
KUBERNETES_ORDER = 1000.0
LAST = math.inf
"""The order of policies that name no order."""

_CALICO = ("projectcalico.org/", "crd.projectcalico.org/")
_KUBERNETES = "networking.k8s.io/v1"
_CLUSTER_KIND: Minor = (3, 32)
"""The release from which on ClusterNetworkPolicy replaces the two older kinds, and policies of
equal order are sorted by their own names."""
_SPEC = frozenset(
    {
        *("tier", "order", "selector", "types", "ingress", "egress"),
        *("serviceAccountSelector", "performanceHints", "stagedAction"),
    }
)
_GLOBAL_SPEC = _SPEC | {"namespaceSelector", "doNotTrack", "preDNAT", "applyOnForward"}
_KUBERNETES_SPEC = frozenset({"podSelector", "policyTypes", "ingress", "egress", "stagedAction"})


@dataclass(frozen=True)
class Tier:
    """A tier; ``end`` applies to traffic that reaches its end."""

    name: str
    order: float
    end: Literal["Deny", "Pass"]


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy."""

    label: str
    """``NetworkPolicy shop/web``."""
    tier: str
    order: float
    concerns: Callable[[Member], Truth]
    """Tests whether the policy selects a pod or a node. Staged policies have this test, too,
    although they have no documented effect."""
    rules: Mapping[Direction, tuple[Rule, ...]]
    """The rules of the directions that the policy applies to; Log rules are left out."""
    staged: bool = False
    names: tuple[str, str, str] = ("", "", "")
    """Kind, namespace and name, by which policies of equal order are sorted."""
    on_forward: bool = False
    """The policy also applies to traffic that host endpoints forward."""

    def is_read_by(self, release: Minor) -> bool:
        """Return whether a release of Calico reads this kind of policy."""
        if self.names[0] not in admin.ADMIN:
            return True
        return (release >= _CLUSTER_KIND) is (self.names[0] == "ClusterNetworkPolicy")

    def tie(self, release: Minor) -> str:
        """Return the key that sorts policies of the same order (felix/calc/policy_sorter.go)."""
        kind, space, name = self.names
        if release >= _CLUSTER_KIND:
            return f"{name}/{space}/{_FELIX_KINDS.get(kind, kind)}"
        if kind not in _PREFIXES and "." not in name:
            name = f"{DEFAULT_TIER}.{name}"
        staged = "staged:" if self.staged else ""
        return f"{space}{'/' if space else ''}{staged}{_PREFIXES.get(kind, '')}{name}"


_FELIX_KINDS = {"ClusterNetworkPolicy": "KubernetesClusterNetworkPolicy"}
_PREFIXES = {
    "KubernetesNetworkPolicy": "knp.default.",
    "StagedKubernetesNetworkPolicy": "knp.default.",
    "AdminNetworkPolicy": "kanp.adminnetworkpolicy.",
    "BaselineAdminNetworkPolicy": "kbanp.baselineadminnetworkpolicy.",
}
TIER = Tier(DEFAULT_TIER, 1_000_000.0, "Deny")
"""The tier of policies that name no tier."""
BUILT_IN = (
    TIER,
    Tier("adminnetworkpolicy", 1_000.0, "Pass"),
    Tier("kube-admin", 1_000.0, "Pass"),
    Tier("baselineadminnetworkpolicy", 10_000_000.0, "Pass"),
    Tier("kube-baseline", 10_000_000.0, "Pass"),
)
"""The tiers that Calico creates by itself: a file need not describe them."""


def tiers(objects: Iterable[Obj]) -> dict[str, Tier]:
    """Return the tiers by name; Calico's own tiers are always included. Raise UsageProblem."""
    found = {tier.name: tier for tier in BUILT_IN}
    for obj in objects:
        if obj.get("kind") != "Tier" or fields.is_foreign(obj):
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
    """Return the policies among the objects, unordered. Raise UsageProblem for a policy that cannot
    be read."""
    return [policy for obj in objects if (policy := policy_of(obj)) is not None]


def policy_of(obj: Obj, *, strict: bool = True) -> Policy | None:
    """Return the policy that an object describes; None if the object is of another kind.

    Raise UsageProblem for a part that cannot be read. If not ``strict``, an unreadable part may
    select any pod and decide any packet; only a policy of which nothing can be read is refused.
    """
    api = str(obj.get("apiVersion") or "")
    kind = str(obj.get("kind") or "")
    label = fields.label(obj)
    with fields.legible(label):
        return _policy_of(obj, api, kind, label, strict=strict)


def _policy_of(obj: Obj, api: str, kind: str, label: str, *, strict: bool) -> Policy | None:
    if fields.is_foreign(obj) or (
        kind.startswith("Staged") and (obj.get("spec") or {}).get("stagedAction") == "Delete"
    ):
        return None
    if kind in admin.ADMIN:
        return _admin(obj, label, kind, strict=strict)
    bare = kind.removeprefix("Staged")
    staged = kind != bare
    if bare == "KubernetesNetworkPolicy" or (
        bare == "NetworkPolicy" and api.startswith(_KUBERNETES)
    ):
        return _kubernetes(obj, label, staged=staged, strict=strict)
    if bare in {"NetworkPolicy", "GlobalNetworkPolicy"}:
        if not api.startswith(_CALICO):
            raise UsageProblem(f"{label}: apiVersion {fields.shown(api)} has no such policy")
        is_global = bare == "GlobalNetworkPolicy"
        return _calico(obj, label, is_global=is_global, staged=staged, strict=strict)
    return None


def _rules(
    read: Callable[[Any, str], Iterable[Rule]], given: Any, direction: Direction, *, strict: bool
) -> Iterator[Rule]:
    """Yield a direction's rules. If not ``strict``, an unreadable rule is limited to its known
    part."""
    for number, one in enumerate(given, start=1):
        where = f"{direction} rule {number}"
        try:
            yield from read(one, where)
        except UsageProblem as problem:
            if strict:
                raise
            yield from calico_rules.unread(one, where, str(problem))


def _order(spec: Obj, where: str) -> float:
    return LAST if spec.get("order") is None else fields.number(spec["order"], f"{where} order")


def _calico(obj: Obj, label: str, *, is_global: bool, staged: bool, strict: bool) -> Policy:
    known = _GLOBAL_SPEC if is_global else _SPEC
    spec = fields.mapping(obj.get("spec"), label, known if strict else ())
    home = None if is_global else str(obj["metadata"].get("namespace") or "default")
    given = _given(spec, label)
    types = _types(spec.get("types"), f"{label} types") or _implied(
        given["ingress"], given["egress"]
    )

    def read(one: Any, where: str) -> Iterator[Rule]:
        rule = calico_rules.of_calico(one, home, where, label)
        if rule is not None:
            yield rule

    concerns = _concerned(spec, home, label, strict=strict)
    return Policy(
        label=label,
        tier=fields.text(spec.get("tier"), f"{label} tier") or DEFAULT_TIER,
        order=_order(spec, label),
        concerns=concerns if spec.keys() <= known else lambda pod: all_of((concerns(pod), None)),
        rules={way: tuple(_rules(read, given[way], way, strict=strict)) for way in types},
        staged=staged,
        names=(str(obj["kind"]), home or "", str(obj["metadata"]["name"])),
        on_forward=any(spec.get(key) for key in ("applyOnForward", "preDNAT", "doNotTrack")),
    )


def _admin(obj: Obj, label: str, kind: str, *, strict: bool) -> Policy:
    """Return a policy of the network-policy-api. If the policy has no rule, it applies to both
    directions."""
    spec = fields.mapping(obj.get("spec"), label, admin.SPEC if strict else ())
    # not strict: the caller knows the tier of a cluster's policy, so it is not read here
    tier, order = admin.place(kind, spec, label) if strict else ("", LAST)
    given = _given(spec, label)

    def read(direction: Direction) -> Callable[[Any, str], Iterator[Rule]]:
        return lambda one, where: admin.rules(one, kind, direction, where, label)

    found = {way: tuple(_rules(read(way), given[way], way, strict=strict)) for way in DIRECTIONS}
    return Policy(
        label=label,
        tier=tier,
        order=order,
        concerns=admin.subject(spec.get("subject"), f"{label} subject"),
        rules={way: listed for way, listed in found.items() if listed} or found,
        names=(kind, "", str(obj["metadata"]["name"])),
    )


def _given(spec: Obj, label: str) -> dict[Direction, Sequence[Any]]:
    return {way: fields.sequence(spec.get(way), f"{label} {way}") for way in DIRECTIONS}


def _implied(ingress: Any, egress: Any) -> list[Direction]:
    """Return the directions of a policy that names none: those with rules, and ingress if it has no
    rules."""
    said = {"ingress": bool(ingress or not egress), "egress": bool(egress)}
    return [direction for direction in DIRECTIONS if said[direction]]


def _types(given: Any, where: str) -> list[Direction]:
    listed = [
        fields.one_of(one, where, {"Ingress", "Egress"}) for one in fields.sequence(given, where)
    ]
    return [direction for direction in DIRECTIONS if direction.capitalize() in listed]


def _concerned(
    spec: Obj, home: str | None, label: str, *, strict: bool
) -> Callable[[Member], Truth]:
    own = calico(spec.get("selector"))
    spaces = calico_namespaces(spec.get("namespaceSelector"))
    accounts = calico(spec.get("serviceAccountSelector"))
    of_hosts = bool(spec.get("doNotTrack") or spec.get("preDNAT"))
    if strict:
        fields.readable(own, f"{label} selector")
        fields.readable(spaces, f"{label} namespaceSelector")
        fields.readable(accounts, f"{label} serviceAccountSelector")
        for name in ("selector", "namespaceSelector", "serviceAccountSelector"):
            fields.of_pods(spec.get(name), f"{label} {name}")

    def concerned(member: Member) -> Truth:
        is_pod = isinstance(member, Pod)
        if (of_hosts and is_pod) or (home is not None and member.namespace != home):
            return False
        of_account = member.account_labels if isinstance(member, Pod) else {}
        return all_of(
            (
                calico_rules.of_labels(own, member),
                spaces.selects(member.namespace_labels),
                accounts.selects(of_account),
            )
        )

    return concerned


def _kubernetes(obj: Obj, label: str, *, staged: bool, strict: bool) -> Policy:
    label = label if staged else f"Kubernetes {label}"
    spec = fields.mapping(obj.get("spec"), label, _KUBERNETES_SPEC if strict else ())
    home = str(obj["metadata"].get("namespace") or "default")
    selector = kubernetes(spec.get("podSelector") or {})
    if strict:
        fields.readable(selector, f"{label} podSelector")
    given = _given(spec, label)
    # Calico fills in nothing for a staged policy: clientv3 has no defaults for this kind
    types = _types(spec.get("policyTypes"), f"{label} policyTypes") or _implied(
        True, given["egress"] and not staged
    )

    def concerned(member: Member) -> Truth:
        if not isinstance(member, Pod) or member.namespace != home:
            return False
        return all_of((selector.selects(member.own), spec.keys() <= _KUBERNETES_SPEC or None))

    def read(direction: Direction) -> Callable[[Any, str], Iterator[Rule]]:
        return lambda one, where: kubernetes_rules.of_kubernetes(one, direction, home, where, label)

    return Policy(
        label=label,
        tier=DEFAULT_TIER,
        order=KUBERNETES_ORDER,
        concerns=concerned,
        rules={way: tuple(_rules(read(way), given[way], way, strict=strict)) for way in types},
        staged=staged,
        names=(
            "StagedKubernetesNetworkPolicy" if staged else "KubernetesNetworkPolicy",
            home,
            str(obj["metadata"]["name"]),
        ),
    )
