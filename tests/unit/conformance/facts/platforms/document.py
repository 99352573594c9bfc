# SPDX-License-Identifier: Apache-2.0
"""Writes docs/platforms.md from ``clusters/*.yaml``: ``python -m tests.unit.conformance.facts.platforms.document``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.catalog import Applies, Undecided, applicability, catalog
from conformance.catalog.claims import Conditions
from conformance.errors import ClusterUnusable
from conformance.facts.detect import detect
from conformance.facts.preflight import preflight
from conformance.kube.client import Kube
from conformance.model.facts import Fact, Facts
from conformance.pods.placement import Placement
from tests.unit.conformance.facts.platforms.served import Cluster, clusters, served

PAGE = Path(__file__).parents[5] / "docs" / "platforms.md"
COLUMNS = {
    "platform": "platform", "install": "installation", "mode": "mode", "ipam": "IPAM", "datastore": "datastore",
    "cni": "CNI", "kube_proxy_mode": "kube-proxy (Linux)",
}  # fmt: skip
HEAD = """\
# What the suite finds out about platforms
For users of a platform that nobody has run the suite on yet.
Generated from [`tests/unit/conformance/facts/platforms/clusters`](../tests/unit/conformance/facts/platforms/clusters)
by `python -m tests.unit.conformance.facts.platforms.document`. A test compares every fact. For claims that do not apply to
every cluster, it also compares whether they apply.

Detection was run on objects that follow the platforms' manifests, charts and programs, **not on these platforms**. The
objects were written for this suite from the sources that each section names. They have only the fields that detection
reads. Objects that Calico's operator makes are rendered from the Installation as the operator renders them. Names of
nodes, labels and versions are examples. `unknown` means that the API does not show the value. Claims that depend on an
unknown value read it on the Windows nodes from a HostProcess pod. Where no such pod is possible, these claims are
NOT_RUN, with that reason. The columns CNI and IPAM describe the Windows nodes; settings of Linux nodes do not count.

The sentence below each title says what a run does on such a cluster; a test compares it with the run's decision.
`python -m tests.unit.conformance.facts.platforms.sources` fetches each source with git and compares its sha256.
"""
NOTES = {
    "aks": "AgentBaker installs Calico on Windows nodes as services with backend `none`. Their "
    "version is that of the "
    "node's image; the API does not show it, only reading the node does. Calico's v3 API is not "
    "served unless "
    "somebody applies an `APIServer`. Azure's Installation is not published; the Installation "
    "used here has the form "
    "that the operator expects.",
    "eks-vpc-cni": "kube-proxy is a Windows service. A node's addresses limit the number of its "
    "Windows pods: "
    "`vpc.amazonaws.com/PrivateIPv4Address`.",
    "rke2": "Calico and kube-proxy on Windows are processes of the rke2 agent; the chart leaves "
    "Calico's API server "
    "out (`apiServer.enabled: false`).",
    "calico-enterprise": "Claims are judged by the Calico version on which Enterprise is built; "
    "the nodes' images have "
    "Enterprise's own version.",
}
MEANT = {True: "meant", False: "not meant", None: "not known"}


def outcome(facts: Facts, kube: Kube) -> dict[str, Any]:
    """Return what a run does on a cluster, in the form of the files; ``says`` is the whole text of
    a refusal."""
    nodes = [node for node in (*facts.nodes, *facts.left_out) if not node.virtual]
    found: dict[str, Any] = {
        "felix": {node.name: MEANT[node.felix.value] for node in nodes if node.felix}
    }
    if facts.left_out:
        found["left_out"] = sorted(node.name for node in facts.left_out)
    placement = Placement(facts)
    try:
        preflight(kube, facts, unusable=placement.unusable)
    except ClusterUnusable as refused:
        return found | {"exit": 7, "says": "; ".join(refused.reasons)}
    return found | {"covered": [item.node.name for item in placement.coverage("windows")]}


def outcome_line(found: dict[str, Any]) -> str:
    """Return ``A run covers Windows nodes win.``, or how the run ends before it begins."""
    if "exit" in found:
        ends = f"**A run ends with exit code {found['exit']}** before anything is touched"
        return f"{ends}: {found['says']}."
    unknown = [name for name, word in found["felix"].items() if word == "not known"]
    out = f"; left out: {', '.join(found['left_out'])}" if "left_out" in found else ""
    look = (
        f"; the run reads on the node itself whether Calico runs on {', '.join(unknown)}"
        if unknown
        else ""
    )
    return f"A run covers Windows node {', '.join(found['covered'])}{out}{look}."


def told(facts: Facts) -> Iterator[tuple[str, Fact[Any]]]:
    """Yield the facts of the page with their names."""
    yield from ((name, getattr(facts, name)) for name in COLUMNS)
    yield "calico_version", facts.calico_version
    yield "calico_edition", facts.calico_edition
    yield from ((f"plane of {node.name}", node.plane) for node in facts.by_os("windows"))
    yield from ((f"Calico on {node}", fact) for node, fact in facts.calico_on_nodes.items())


def values(facts: Facts) -> dict[str, Any]:
    """Map each fact to its value in the form of the files; add those claims that apply here and not
    to every cluster."""
    found: dict[str, Any] = {
        name: "unknown" if fact.value is None else fact.value for name, fact in told(facts)
    }
    found["calico_on_nodes"] = {
        node: fact.value or "unknown" for node, fact in facts.calico_on_nodes.items()
    }
    found["plane"] = {node.name: node.plane.value or "unknown" for node in facts.by_os("windows")}
    found["pod_network"] = facts.pod_network.value
    answers = {ident: applicability(catalog()[ident], facts) for ident in catalog()}
    conditional = {ident for ident in answers if catalog()[ident].applies != Conditions()}
    for name, kind in (("applies", Applies), ("undecided", Undecided)):
        found[name] = " ".join(
            sorted(ident for ident in conditional if isinstance(answers[ident], kind))
        )
    found["builds"] = {node.name: node.kernel_version for node in facts.by_os("windows")}
    return found


def page(scratch: Path) -> str:
    """Return the whole page; ``scratch`` is a folder for kubeconfigs."""
    found: list[tuple[Cluster, Facts]] = []
    ends: dict[str, str] = {}
    for cluster in clusters():
        with served(cluster, scratch) as kube:
            found.append((cluster, detect(kube)))
            ends[cluster.name] = outcome_line(outcome(found[-1][1], kube))
    heads = ["cluster", *COLUMNS.values(), "Windows builds", "Calico on nodes"]
    lines = [
        HEAD,
        _row(heads),
        _row(["---"] * len(heads)),
        *(_row(_cells(*item)) for item in found),
    ]
    for cluster, facts in found:
        lines += _section(cluster, facts, ends[cluster.name])
    return "\n".join(lines) + "\n"


def _cells(cluster: Cluster, facts: Facts) -> list[str]:
    found = values(facts)
    nodes = ", ".join(f"{node} {version}" for node, version in found["calico_on_nodes"].items())
    title = f"[{cluster.title}](#{cluster.name})"
    return [
        title,
        *(str(found[name]) for name in COLUMNS),
        ", ".join(found["builds"].values()) or "none",
        nodes,
    ]


def _section(cluster: Cluster, facts: Facts, ends: str) -> Iterator[str]:
    yield f"\n## {cluster.name}"
    yield (
        f"{cluster.title}, Kubernetes {cluster.kubernetes}. {NOTES.get(cluster.name, '')}".rstrip()
        + f"\n\n{ends}\n"
    )
    yield _row(["fact", "value", "where it came from"])
    yield _row(["---"] * 3)
    for name, fact in told(facts):
        yield _row(
            [
                COLUMNS.get(name, name.replace("_", " ")),
                str(fact.value or "unknown"),
                f"`{fact.source}`",
            ]
        )
    yield ""
    for source in cluster.sources:
        link = f"https://github.com/{source.repository}/blob/{source.commit}/{source.path}"
        what = f"{source.what}: [{source.repository} {source.path}]({link})"
        yield f"- {what} at {source.commit[:7]}, sha256 `{source.sha256}`, {source.licence}"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        text = page(Path(folder))
    PAGE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.name}\n")
