# SPDX-License-Identifier: Apache-2.0
"""Puts taps at the seams of a lab: at the updates that Typha receives, and at the results of some
nodes' Felixes.

Taps use the lab only by its parts' public names, and store their own state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.calico.felix import Felix
from hybridlab.calico.typha import Updates
from hybridlab.faults.lab_parts import LabParts
from hybridlab.policy.policy import Policy, PolicyKey
from hybridlab.policy.resolve import Graph
from hybridlab.taps import Seam

Put = Callable[[LabParts], None]
"""Puts one tap, or taps that belong together, at seams of a lab."""
NAME = "tap"
BOTH = ("linux-2", "windows-2019")
"""A node of each operating system; taps for some nodes only are on these two, unless stated
otherwise."""


def felixes(lab: LabParts, nodes: Iterable[str] = BOTH) -> dict[str, Felix]:
    """Map these nodes, as far as the lab has them, to their Felixes."""
    there = lab.calico.felixes
    return {node: there[node] for node in nodes if node in there}


def put(seam: Seam[Any], tap: Callable[..., Any]) -> None:
    """Put the only tap of this lab at a seam."""
    seam.taps[NAME] = tap


def on_updates(lab: LabParts, tap: Callable[[Updates, str], Updates]) -> None:
    """Change the updates that Typha receives: ``tap`` takes updates and their resource."""
    put(lab.calico.typha.updates, tap)


def on_facts(change: Callable[[Graph, Obj, Any], Any], kind: type) -> Put:
    """Let Typha read facts of a kind wrongly: ``change`` takes the graph, the object and the fact.
    If ``change`` returns None, the update is lost."""

    def put_it(lab: LabParts) -> None:
        def tap(updates: Updates, _: str) -> Updates:
            graph = lab.calico.typha.graph
            made = [
                (obj, change(graph, obj, fact) if isinstance(fact, kind) else fact)
                for obj, fact in updates
            ]
            return [
                (obj, fact)
                for (obj, fact), (_, true) in zip(made, updates, strict=True)
                if fact is not None or true is None
            ]

        on_updates(lab, tap)

    return put_it


class Policies:
    """The policies that Typha received, with their objects."""

    def __init__(self) -> None:
        self._objects: dict[PolicyKey, Obj] = {}

    def key_of(self, obj: Obj) -> PolicyKey | None:
        """Return the key of the policy that an object is; None if it is no policy."""
        uid = obj["metadata"]["uid"]
        found = (key for key, one in self._objects.items() if one["metadata"]["uid"] == uid)
        return next(found, None)

    def without(self, keys: Iterable[PolicyKey]) -> Updates:
        """Return the updates that delete policies."""
        return [(self._objects.pop(key), None) for key in keys]

    def take(self, updates: Updates) -> Updates:
        """Store the policies in updates, and forget deleted policies."""
        for obj, fact in updates:
            if isinstance(fact, Policy):
                self._objects[fact.key] = obj
            elif fact is None:
                self._objects.pop(self.key_of(obj), None)  # type: ignore[arg-type]
        return updates


def on_policies(change: Callable[[Graph, Policies, Obj, Policy], Updates]) -> Put:
    """Change what Typha receives about a policy: ``change`` returns the updates in place of the
    policy's own."""

    def put_it(lab: LabParts) -> None:
        there = Policies()

        def tap(updates: Updates, _: str) -> Updates:
            graph = lab.calico.typha.graph
            made: list[tuple[Obj, Any]] = []
            for obj, fact in updates:
                is_policy = isinstance(fact, Policy)
                made += there.take(change(graph, there, obj, fact) if is_policy else [(obj, fact)])
            return made

        on_updates(lab, tap)

    return put_it


def edited(graph: Graph, policy: Policy) -> bool:
    """Return whether a policy has other rules than before and is otherwise unchanged."""
    old = graph.policies.get(policy.key)
    return old is not None and old != policy and policy.same_place(old)


def selected(graph: Graph, node: str, key: PolicyKey) -> Sequence[str]:
    """Return the endpoints of a node to which a policy applies."""
    return [uid for uid in graph.endpoints_on(node) if key in graph.keys_for(uid)]
