"""Patches of the lab that are wrong over time, on linux-2 and windows-2019: what Felix makes of what it had before.

They are about what came before, which no fault of the lab remembers; ``patched_lab`` applies them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

NODES = {"linux-2", "windows-2019"}


def policies_made_anew() -> None:
    """A pod is not under a policy that was there before, went, and came again."""
    from hybridlab.calico.felix_faults import FelixFaults

    true, ever, gone = FelixFaults.keys_for, dict[str, set[Any]](), dict[str, set[Any]]()

    def patched(self: Any, graph: Any, uid: str) -> Any:
        keys = true(self, graph, uid)
        if self.node not in NODES:
            return keys
        gone.setdefault(uid, set()).update(ever.get(uid, set()) - graph.policies.keys())
        ever.setdefault(uid, set()).update(keys)
        return keys - gone[uid]

    FelixFaults.keys_for = patched  # type: ignore[method-assign]


def taken_labels() -> None:
    """A pod that loses a label loses its policies, until others apply."""
    from hybridlab.calico.felix_faults import FelixFaults
    from hybridlab.policy.resolve import Graph

    true, refresh, lost = FelixFaults.keys_for, Graph._refresh, dict[str, Any]()

    def patched(self: Any, graph: Any, uid: str) -> Any:
        keys = true(self, graph, uid)
        return frozenset() if self.node in NODES and lost.get(uid) == keys else keys

    def refreshed(self: Any, pod: Any) -> None:
        before = self._endpoints.get(pod.uid)
        refresh(self, pod)
        if (
            before
            and before.labels.keys() - self._endpoints[pod.uid].labels.keys()
            and self.keys_for(pod.uid)
        ):
            lost[pod.uid] = self.keys_for(pod.uid)
            self._endpoint_due(pod.node, pod.uid)

    FelixFaults.keys_for, Graph._refresh = patched, refreshed  # type: ignore[method-assign]


def returned_members() -> None:
    """Who was a member of a set, and was none, is not one again."""
    from hybridlab.calico.felix_faults import FelixFaults

    true, were, gone = (
        FelixFaults.members,
        dict[tuple[str, str], set[str]](),
        dict[tuple[str, str], set[str]](),
    )

    def patched(self: Any, sets: Any, name: str) -> Any:
        members, here = true(self, sets, name), (self.node, name)
        gone.setdefault(here, set()).update(were.get(here, set()) - set(members))
        were[here] = set(members)
        return (
            tuple(one for one in members if one not in gone[here])
            if self.node in NODES
            else members
        )

    FelixFaults.members = patched  # type: ignore[method-assign]


def selected_again() -> None:
    """A pod that a policy has selected, and did not select any more, is not under it again."""
    from hybridlab.calico.felix_faults import FelixFaults

    true, were, gone = FelixFaults.keys_for, dict[str, Any](), dict[str, set[Any]]()

    def patched(self: Any, graph: Any, uid: str) -> Any:
        keys = true(self, graph, uid)
        if self.node not in NODES:
            return keys
        left = were.get(uid, frozenset()) - keys
        gone.setdefault(uid, set()).update(key for key in left if key in graph.policies)
        were[uid] = keys
        return keys - gone[uid]

    FelixFaults.keys_for = patched  # type: ignore[method-assign]


def other_apis_go() -> None:
    """With an edit of a policy go those of the other API from its pods, until others apply."""
    from hybridlab.calico.felix_faults import FelixFaults

    true, lost = FelixFaults.keys_for, dict[str, tuple[Any, bool]]()

    def patched(self: Any, graph: Any, uid: str) -> Any:
        keys = true(self, graph, uid)
        at, kubernetes = lost.get(uid, (None, False))
        if self.node not in NODES or at != keys:
            return keys
        return frozenset(key for key in keys if key.kind.startswith("Kubernetes") == kubernetes)

    def due(self: Any, uid: str, key: Any) -> bool:
        lost[uid] = self._graph.keys_for(uid), key.kind.startswith("Kubernetes")
        self.endpoint_due(uid)
        return True

    FelixFaults.keys_for = patched  # type: ignore[method-assign]
    _told_of_rules(due)


def other_apis_go_too() -> None:
    """With a removed policy go those of the other API from its pods, until others apply."""
    from hybridlab.calico.felix_faults import FelixFaults
    from hybridlab.policy.resolve import Graph

    true, remove, lost = FelixFaults.keys_for, Graph.remove_policy, dict[str, tuple[Any, str]]()

    def patched(self: Any, graph: Any, uid: str) -> Any:
        keys = true(self, graph, uid)
        at, kind = lost.get(uid, (None, ""))
        if self.node not in NODES or at != keys:
            return keys
        return frozenset(
            key
            for key in keys
            if key.kind.startswith("Kubernetes") == kind.startswith("Kubernetes")
        )

    def removed(self: Any, key: Any) -> None:
        told = [
            uid for node in NODES for uid in self.endpoints_on(node) if key in self.keys_for(uid)
        ]
        remove(self, key)
        lost.update((uid, (self.keys_for(uid), key.kind)) for uid in told)

    FelixFaults.keys_for, Graph.remove_policy = patched, removed  # type: ignore[method-assign]


def last_of_several() -> None:
    """Of several pods of a node that a policy selects the last does not hear that its rules were edited."""
    from hybridlab.calico.felix_windows_policy import WindowsNodePolicy

    users = WindowsNodePolicy._users_of

    def due(self: Any, uid: str, key: Any) -> bool:
        selected = [
            one for one in self._graph.endpoints_on(self._node) if key in self._graph.keys_for(one)
        ]
        return self._node not in NODES or len(selected) < 2 or uid != selected[-1]

    def but_the_last(self: Any, policies: Any) -> set[str]:
        found = sorted(users(self, policies))
        return set(found[:-1] if self._node in NODES and len(found) > 1 else found)

    _told_of_rules(due)
    WindowsNodePolicy._users_of = but_the_last  # type: ignore[method-assign]


def _told_of_rules(due: Callable[[Any, str, Any], bool]) -> None:
    """``due`` says whether a node's Felix hears that rules of a policy changed that is in force at an endpoint."""
    from hybridlab.calico.felix_policy import NodePolicy
    from hybridlab.calico.felix_windows_policy import WindowsNodePolicy

    def told(kind: Any) -> None:
        heard = kind.rules_due
        kind.rules_due = lambda self, uid, key: (
            heard(self, uid, key) if due(self, uid, key) else None
        )

    told(NodePolicy)
    told(WindowsNodePolicy)


def edited(change: Callable[[Any, Any], Any]) -> None:
    """Felix makes something else of a policy that was edited: ``change`` gets its rules for one way, and the first."""
    from hybridlab.calico.felix_faults import FelixFaults

    true, first = FelixFaults.read, dict[Any, Any]()

    def policy(now: Any) -> Any:
        was = first.setdefault(now.key, now)
        both = {way: change(now.rules(way), was.rules(way)) for way in ("ingress", "egress")}
        return (
            replace(now, **both) if (now.ingress, now.egress) != (was.ingress, was.egress) else now
        )

    def patched(self: Any, tiers: Any) -> Any:
        read = true(self, tiers)
        if self.node not in NODES:
            return read
        return tuple(replace(tier, policies=tuple(map(policy, tier.policies))) for tier in read)

    FelixFaults.read = patched  # type: ignore[method-assign]


def reversed_rules(now: Any, was: Any) -> Any:
    """An edited policy's rules are asked in reverse."""
    return now[::-1]


def ports_of_datagrams(now: Any, was: Any) -> Any:
    """Ports of rules about UDP stay what they were at first."""

    def rule(one: Any, before: Any) -> Any:
        ports = before.destination.ports if one.protocol == "udp" else one.destination.ports
        return replace(one, destination=replace(one.destination, ports=ports))

    return (*map(rule, now, was), *now[len(was) :])
