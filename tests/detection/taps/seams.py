# SPDX-License-Identifier: Apache-2.0
"""Puts taps at the seams of a lab: at updates that Typha receives, and at rules that Felixes of
some nodes make of them.

Taps use only the public names of the lab's parts, and keep their own memory.
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
"""A node of each operating system; taps for some nodes alone are on these unless they say
otherwise."""


def felixes(lab: LabParts, nodes: Iterable[str] = BOTH) -> dict[str, Felix]:
    """Return the Felixes of those nodes that the lab has."""
    there = lab.calico.felixes
    return {node: there[node] for node in nodes if node in there}


def put(seam: Seam[Any], tap: Callable[..., Any]) -> None:
    """Put the one tap of this lab at a seam."""
    seam.taps[NAME] = tap


def on_updates(lab: LabParts, tap: Callable[[Updates, str], Updates]) -> None:
    """Change what Typha hears: ``tap`` takes updates and their resource."""
    put(lab.calico.typha.updates, tap)


def on_facts(change: Callable[[Graph, Obj, Any], Any], kind: type) -> Put:
    """Typha takes a fact of a kind for another: ``change`` takes the graph, the object and the
    fact.

    None from ``change`` means that nobody hears of the update.
    """

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
    """The policies that Typha heard of, with their objects."""

    def __init__(self) -> None:
        self._objects: dict[PolicyKey, Obj] = {}

    def key_of(self, obj: Obj) -> PolicyKey | None:
        """Return the key of the policy that an object is; None if the object is none."""
        uid = obj["metadata"]["uid"]
        found = (key for key, one in self._objects.items() if one["metadata"]["uid"] == uid)
        return next(found, None)

    def without(self, keys: Iterable[PolicyKey]) -> Updates:
        """Return the updates by which policies go."""
        return [(self._objects.pop(key), None) for key in keys]

    def take(self, updates: Updates) -> Updates:
        """Remember the policies in updates and forget those that go."""
        for obj, fact in updates:
            if isinstance(fact, Policy):
                self._objects[fact.key] = obj
            elif fact is None:
                self._objects.pop(self.key_of(obj), None)  # type: ignore[arg-type]
        return updates


def on_policies(change: Callable[[Graph, Policies, Obj, Policy], Updates]) -> Put:
    """Typha hears something else of a policy: ``change`` returns the updates in the place of its
    own."""

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
    """Return whether a policy gets other rules and nothing else."""
    old = graph.policies.get(policy.key)
    return old is not None and old != policy and policy.same_place(old)


def selected(graph: Graph, node: str, key: PolicyKey) -> Sequence[str]:
    """Return the endpoints of a node to which a policy applies."""
    return [uid for uid in graph.endpoints_on(node) if key in graph.keys_for(uid)]
