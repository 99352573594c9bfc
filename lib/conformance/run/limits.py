"""What bounds a run: room for pods on Windows nodes (``-n auto``), and the rights that its user lacks.

Two things limit a Windows node: the kubelet's max-pods and the one IPAM block it has (of which four addresses are
reserved).  What cannot be read bounds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from conformance.facts.rights import RBAC_ROLES
from conformance.kube.client import Kube
from conformance.kube.refused import ApiRefused
from conformance.model.claim import ClaimVerdict
from conformance.model.facts import Facts
from conformance.report.outcomes import TestOutcome

BLOCKS = ("crd.projectcalico.org/v1", "projectcalico.org/v3")
"""Where IPAMBlock is served: the first by default, the second where Calico's CRDs are native v3."""
LARGEST = 60
"""Addresses for pods in a /26 block of a Windows node that has none yet."""
_ENDED = ("Succeeded", "Failed")


def free_windows_addresses(kube: Kube, facts: Facts) -> int | None:
    """Pods that ready Windows nodes have room for, in all; None where not even pods may be listed."""
    usable = {node.name for node in facts.by_os("windows") if node.ready and node.schedulable}
    try:
        nodes = {one["metadata"]["name"]: one for one in kube.objects("v1", "Node")}
        pods = Counter(
            str((one.get("spec") or {}).get("nodeName"))
            for one in kube.objects("v1", "Pod")
            if (one.get("status") or {}).get("phase") not in _ENDED
        )
    except ApiRefused:
        return None
    in_blocks = _unallocated(kube)
    free = 0
    for name in usable & set(nodes):
        allocatable = int(((nodes[name].get("status") or {}).get("allocatable") or {}).get("pods") or LARGEST)
        free += max(0, min(allocatable - pods[name], in_blocks.get(name, LARGEST)))
    return free


def _unallocated(kube: Kube) -> dict[str, int]:
    """Node to free addresses in its blocks."""
    for api_version in BLOCKS:
        if not kube.discovery.serves(api_version, "IPAMBlock"):
            continue
        try:
            blocks = kube.objects(api_version, "IPAMBlock")
        except ApiRefused:
            return {}
        free: Counter[str] = Counter()
        for block in blocks:
            spec = block.get("spec") or {}
            kind, _, node = str(spec.get("affinity") or "").partition(":")
            if kind == "host":
                free[node] += len(spec.get("unallocated") or ())
        return dict(free)
    return {}


def lost_for_want_of(lacking: Mapping[str, Sequence[str]], tests: Sequence[TestOutcome]) -> list[str]:
    """One note per kind of test that did not run, with every right that is missing, and the role that grants them."""
    notes = []
    for use, rights in lacking.items():
        claims = dict.fromkeys(
            result.claim
            for test in tests
            for result in test.results
            if result.verdict is ClaimVerdict.NOT_RUN and rights[0] in result.reason
        )
        if claims:
            notes.append(
                f"the run's user may not {'; '.join(rights)}: this costs {', '.join(claims)}; "
                f"bind the role of manifests/rbac/{RBAC_ROLES[use]}.yaml"
            )
    return notes
