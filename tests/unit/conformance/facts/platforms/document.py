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
from conformance.facts.detect import detect
from conformance.model.facts import Fact, Facts
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
by `python -m tests.unit.conformance.facts.platforms.document`; a test compares every fact, and which claims apply of
those that are not about every cluster.

Detection was run on objects as the platforms' manifests, charts and programs make them, **not on these platforms**. The
objects were written for this suite after the sources that each section names; they have what detection can read, and
nothing else; what Calico's operator keeps is rendered from the Installation as it renders it; names of nodes, labels
and versions are examples. `unknown` means that nothing in the API says it: what
depends on it looks into the Windows nodes by a HostProcess pod, and is NOT_RUN with that reason where none can be.
CNI and IPAM are those of the Windows nodes: what Linux is told says nothing of them.
"""
NOTES = {
    "aks": "AgentBaker installs Calico on Windows nodes as services with backend `none`, in the version of the "
    "node's image; nothing in the API says which: a look into the node does. Calico's v3 API is not served unless "
    "somebody applies an `APIServer`. Azure's Installation is not published; this one has the operator's form.",
    "eks-vpc-cni": "kube-proxy is a Windows service. The nodes' addresses bound the pods: "
    "`vpc.amazonaws.com/PrivateIPv4Address`.",
    "rke2": "Calico and kube-proxy on Windows are processes of the rke2 agent; the chart leaves Calico's API server "
    "out (`apiServer.enabled: false`).",
    "rke1": "NOT supported by the suite: RKE1 runs no Calico on its Windows nodes.",
    "openshift": "NOT supported by the suite: its pods listen on port 80 and use the node's network, which "
    "`restricted-v2` refuses, and no SecurityContextConstraints bindings are shipped, because nobody has tried them: "
    "a run ends with exit code 7 before anything is touched.",
    "k3s": "NOT supported by the suite: k3s has no Windows agent, and a run ends with exit code 7.",
    "gke": "NOT supported by the suite: GKE runs no Calico on its Windows nodes.",
    "calico-enterprise": "Claims are judged by the Calico version that Enterprise is built on; what is on the nodes is "
    "Enterprise's own version.",
}


def told(facts: Facts) -> Iterator[tuple[str, Fact[Any]]]:
    """The facts of the page by name."""
    yield from ((name, getattr(facts, name)) for name in COLUMNS)
    yield "calico_version", facts.calico_version
    yield "calico_edition", facts.calico_edition
    yield from ((f"plane of {node.name}", node.plane) for node in facts.by_os("windows"))
    yield from ((f"Calico on {node}", fact) for node, fact in facts.calico_on_nodes.items())


def values(facts: Facts) -> dict[str, Any]:
    """Fact to value, as the files have them; and which of the claims that are not about every cluster apply."""
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
    """The whole page; ``scratch`` is a folder for kubeconfigs."""
    found: list[tuple[Cluster, Facts]] = []
    for cluster in clusters():
        with served(cluster, scratch) as kube:
            found.append((cluster, detect(kube)))
    heads = ["cluster", *COLUMNS.values(), "Windows builds", "Calico on nodes"]
    lines = [
        HEAD,
        _row(heads),
        _row(["---"] * len(heads)),
        *(_row(_cells(*item)) for item in found),
    ]
    for cluster, facts in found:
        lines += _section(cluster, facts)
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


def _section(cluster: Cluster, facts: Facts) -> Iterator[str]:
    yield f"\n## {cluster.name}"
    yield (
        f"{cluster.title}, Kubernetes {cluster.kubernetes}. {NOTES.get(cluster.name, '')}".rstrip()
        + "\n"
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
        yield f"- {source.what}: [{source.repository} {source.path}]({link}) at {source.commit[:7]}, {source.licence}"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        text = page(Path(folder))
    PAGE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.name}\n")
