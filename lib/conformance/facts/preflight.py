# SPDX-License-Identifier: Apache-2.0
"""All reasons that make a run impossible, listed at once.

The reasons are: a missing right to read, an unsupported platform, and a cluster without usable
Linux nodes, Windows nodes or Calico.

Conditions that are claims (strict affinity, IPIP, build numbers ...) are not checked here: tests
decide them.
"""

from collections.abc import Callable, Sequence

from conformance.errors import ClusterUnusable
from conformance.facts.felix_meant import LOOKED_FOR
from conformance.facts.rights import READING
from conformance.kube.client import Kube
from conformance.kube.rights import Right, missing
from conformance.model.by_key import by_key
from conformance.model.endpoint import OS
from conformance.model.facts import Facts, NodeFacts

OPENSHIFT = (
    "OpenShift is not supported: its SecurityContextConstraints refuse the suite's pods, which listen on port 80 and "
    "use the node's network, and the suite ships no role bindings that would allow these pods. "
    "Pods that do not start prove nothing about Calico"
)


def preflight(
    kube: Kube,
    facts: Facts,
    *,
    rights: Sequence[Right] = READING,
    unusable: Callable[[NodeFacts], str] = lambda node: "" if node.ready else "not ready",
) -> None:
    """Raise ClusterUnusable, with all reasons, if no run is possible. ``unusable`` returns why a
    node cannot take pods, or an empty string if the node can."""
    reasons = lacking_rights(kube, rights)
    if facts.platform.value == "openshift":
        reasons.append(OPENSHIFT)
    systems: tuple[OS, ...] = ("linux", "windows")
    for os in systems:
        nodes = facts.by_os(os)
        name = os.capitalize()
        if not nodes:
            have = ", ".join(map(_named, (*facts.nodes, *facts.left_out))) or "none at all"
            reasons.append(f"the cluster has no {name} node (nodes: {have})")
        elif all(item.without_calico for item in nodes):
            reasons.append(_no_felix(nodes))
        elif all(unusable(item) for item in nodes):
            why = "; ".join(f"{item.name}: {unusable(item)}" for item in nodes)
            reasons.append(f"no {name} node can take pods ({why})")
    if not _has_calico(facts):
        groups = ", ".join(facts.calico_apis.value or ()) or "none"
        reasons.append(
            f"Calico was not found: API groups {groups}; version: {facts.calico_version.source}"
        )
    if reasons:
        raise ClusterUnusable(reasons)


def lacking_rights(kube: Kube, rights: Sequence[Right] = READING) -> list[str]:
    """Return a message for each right that the user needs and lacks."""
    return [
        f"{kube.access.user} may not {right.label}, which is needed to {right.needed_for}"
        for right in missing(kube, rights)
    ]


def _named(node: NodeFacts) -> str:
    return f"{node.name} ({node.os}{f', virtual: {node.virtual}' if node.virtual else ''})"


def _no_felix(nodes: Sequence[NodeFacts]) -> str:
    """Return the reason that Calico should run on no Windows node, with the signs of Calico that
    were searched for."""
    why = by_key((node.without_calico, node.name) for node in nodes)
    text = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in why.items())
    return (
        f"no Windows node is meant to run Calico, so there is nothing to judge. Reason: {text}. "
        f"The run looked for {LOOKED_FOR}. If Calico runs as a service on Windows nodes, name its "
        "version: --windows-calico-version VERSION"
    )


def _has_calico(facts: Facts) -> bool:
    served = facts.calico_apis.value or ()
    return facts.calico_version.known or any(
        item.partition("/")[0].endswith("projectcalico.org") for item in served
    )
