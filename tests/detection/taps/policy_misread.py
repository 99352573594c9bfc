# SPDX-License-Identifier: Apache-2.0
"""The fault ``policy-misread``: Felix misreads one thing in every policy of its node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from hybridlab.calico.felix import Felix
from hybridlab.calico.felix_faults import Tiers
from hybridlab.faults.felix import of_felix
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE_OR_ALL, Fault, Parameter, Types
from hybridlab.faults.reprogramming import CompositeFault
from hybridlab.policy.ipsets import SelectorSet
from hybridlab.policy.policy import Policy
from hybridlab.policy.render import set_keys
from hybridlab.policy.resolve import Graph
from hybridlab.policy.selectors import NAMESPACE_LABEL, Selector
from tests.detection.taps.misreadings import MISREADINGS, misread, one_number, widened

TYPES = Types()
Members = tuple[str, ...]


@TYPES.fault(
    "policy-misread",
    "policy",
    NODE_OR_ALL,
    Parameter("as", f"{', '.join(MISREADINGS[:-1])} or {MISREADINGS[-1]}", choices=MISREADINGS),
)
def policy_misread(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Felix misreads one thing in every policy of its node."""
    way = parameters["as"]
    nodes = lab.nodes(parameters["node"])
    says = f"reads policy as if it said {way}"
    anew = Felix.start_over

    def read(tiers: Tiers) -> Tiers:
        return misread(tiers, [way])

    of_sets = of_felix(
        lab, nodes, identity, f"{says} in sets", lambda faults: faults.set_members.taps,
        value=partial(_members, way, lab.calico.typha.graph, tuple(lab.calico.nodes)),
    )  # fmt: skip
    of_policies = of_felix(
        lab, nodes, identity, says, lambda faults: faults.policies.taps,
        value=read, put=anew, taken=anew,
    )  # fmt: skip
    return CompositeFault(of_sets, of_policies)


def _members(way: str, graph: Graph, nodes: Iterable[str], members: Members, name: str) -> Members:
    match way:
        case "namesakes":
            return _anywhere(graph, nodes, members, name)
        case "last-4000-members":
            return members[-4000:]
        case "named-port-one-number":
            return one_number(members)
        case "blocks":
            return widened(members)
    return members


def _anywhere(graph: Graph, nodes: Iterable[str], members: Members, name: str) -> Members:
    """Return the members of a set as if the namespaces of pods did not matter."""
    selector = selectors(graph.policies.values()).get(name)
    pods = [graph.pod(uid) for node in nodes for uid in graph.endpoints_on(node)]
    namespaces = {pod.namespace for pod in pods}
    if selector is None:
        return members
    found = set(members)
    for pod in pods:
        as_if = ({**graph.labels_of(pod.uid), NAMESPACE_LABEL: other} for other in namespaces)
        if pod.address and any(map(selector.matches, as_if)):
            found.add(pod.address)
    return tuple(sorted(found))


def selectors(policies: Iterable[Policy]) -> dict[str, Selector]:
    """Return the selectors of the sets that policies name, by the sets' names."""
    return {key.name: key.selector for key in _keys(policies) if isinstance(key, SelectorSet)}


def _keys(policies: Iterable[Policy]) -> Iterator[object]:
    for policy in policies:
        for rule in (*policy.ingress, *policy.egress):
            yield from set_keys(rule)
