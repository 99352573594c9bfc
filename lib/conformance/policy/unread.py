# SPDX-License-Identifier: Apache-2.0
"""Objects that may decide about pods, but that the oracle does not read. A pod that such an object
may affect gets no verdict.

Any kind whose name ends in Policy counts, unless its API is known to decide nothing about traffic.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from conformance.policy import labels
from conformance.policy.oracle import fields
from conformance.policy.oracle.admin import ADMIN
from conformance.policy.oracle.fields import is_foreign
from conformance.policy.oracle.policies import Policy
from conformance.policy.oracle.world import NetworkSet, World

_ELSEWHERE = ("admissionregistration.k8s.io", "policy", "kyverno.io", "autoscaling")
"""API groups whose policies are not about traffic."""
_BESIDE = (
    *("PeerAuthentication", "RequestAuthentication", "Sidecar"),
    *("Server", "ServerAuthorization", "EgressFirewall", "NetNamespace"),
    *("MeshTrafficPermission", "TrafficPermission", "ServiceIntentions"),
)
"""Kinds of service meshes and networks that decide about traffic although their names do not
contain "Policy"."""
_EVERYWHERE = ("istio-system", "kuma-system")
"""Namespaces in which a service mesh's policies apply to all pods."""
READ = frozenset(
    {
        "NetworkPolicy",
        "GlobalNetworkPolicy",
        "StagedNetworkPolicy",
        "StagedGlobalNetworkPolicy",
        "StagedKubernetesNetworkPolicy",
        "Tier",
        *ADMIN,
    }
)


def is_unread_policy(obj: Any) -> bool:
    """Return whether an object may decide about traffic, and is not read."""
    kind = str(obj["kind"])
    group = str(obj.get("apiVersion") or "").partition("/")[0]
    return kind in _BESIDE or (
        kind.endswith(("Policy", "Policies"))
        and (kind not in READ or is_foreign(obj))
        and group not in _ELSEWHERE
    )


def unjudged(world: World, policies: Iterable[Policy]) -> dict[str, str]:
    """Return why pods cannot be judged, by the pod's name: the first object that may affect the pod
    and is not read."""
    found: dict[str, str] = {}
    for obj in filter(is_unread_policy, world.unread):
        space = (obj.get("metadata") or {}).get("namespace")
        for name, pod in world.pods.items():
            if not space or space in _EVERYWHERE or pod.namespace == space:
                found.setdefault(name, f"{fields.label(obj)} is not read")
    for node, why in _forwarding(world, list(policies)):
        for name, pod in world.pods.items():
            if not node or not pod.node or pod.node == node:
                found.setdefault(name, why)
    return found


def _forwarding(world: World, policies: list[Policy]) -> Iterator[tuple[str, str]]:
    """Yield node and reason of each HostEndpoint with policies about forwarded traffic."""
    for obj in world.unread:
        if obj["kind"] == "HostEndpoint":
            member = NetworkSet("", labels.own(obj), {}, ())
            yield from (
                (
                    str((obj.get("spec") or {}).get("node") or ""),
                    f"{fields.label(obj)} with {policy.label} (applyOnForward) is not read",
                )
                for policy in policies
                if policy.on_forward and policy.concerns(member)
            )


def unread_policies(world: World) -> list[str]:
    """Return the objects that may decide about traffic, and are not read."""
    return [fields.label(obj) for obj in filter(is_unread_policy, world.unread)]


def passed_over(world: World) -> list[str]:
    """Return the objects that decide nothing about pods and were ignored."""
    return [
        fields.label(obj)
        for obj in world.unread
        if (obj["kind"] not in READ or is_foreign(obj)) and not is_unread_policy(obj)
    ]
