# SPDX-License-Identifier: Apache-2.0
"""What makes a run impossible, all reasons at once.

No right to read, a platform that is not supported, no Linux node, no Windows node, no Calico.

What is a claim (strict affinity, IPIP, build numbers ...) is not looked at here: it runs as a claim.
"""

from collections.abc import Callable, Sequence

from conformance.errors import ClusterUnusable
from conformance.facts.rights import READING
from conformance.kube.client import Kube
from conformance.kube.rights import Right, missing
from conformance.model.endpoint import OS
from conformance.model.facts import Facts, NodeFacts

OPENSHIFT = (
    "OpenShift is not supported: its SecurityContextConstraints refuse the suite's pods, which listen on port 80 and "
    "use the node's network, and no bindings for them are shipped: pods that do not start say nothing about Calico"
)


def preflight(
    kube: Kube,
    facts: Facts,
    *,
    rights: Sequence[Right] = READING,
    unusable: Callable[[NodeFacts], str] = lambda node: "" if node.ready else "not ready",
) -> None:
    """Raises ClusterUnusable with every reason.  ``unusable`` says why a node cannot take pods, "" when it can."""
    reasons = lacking_rights(kube, rights)
    if facts.platform.value == "openshift":
        reasons.append(OPENSHIFT)
    systems: tuple[OS, ...] = ("linux", "windows")
    for os in systems:
        nodes = facts.by_os(os)
        name = os.capitalize()
        if not nodes:
            have = ", ".join(f"{item.name} ({item.os})" for item in facts.nodes) or "none at all"
            reasons.append(f"the cluster has no {name} node (nodes: {have})")
        elif all(unusable(item) for item in nodes):
            why = "; ".join(f"{item.name}: {unusable(item)}" for item in nodes)
            reasons.append(f"no {name} node can take pods ({why})")
    if not _has_calico(facts):
        groups = ", ".join(facts.calico_apis.value or ()) or "none"
        reasons.append(
            f"no Calico found: its API groups {groups}; its version {facts.calico_version.source}"
        )
    if reasons:
        raise ClusterUnusable(reasons)


def lacking_rights(kube: Kube, rights: Sequence[Right] = READING) -> list[str]:
    """What the user may not do and would have to, one reason each."""
    return [
        f"{kube.access.user} may not {right.label}, needed to {right.needed_for}"
        for right in missing(kube, rights)
    ]


def _has_calico(facts: Facts) -> bool:
    served = facts.calico_apis.value or ()
    return facts.calico_version.known or any(
        item.partition("/")[0].endswith("projectcalico.org") for item in served
    )
