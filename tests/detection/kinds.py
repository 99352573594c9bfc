# SPDX-License-Identifier: Apache-2.0
"""Write docs/modes-table.md, which git does not keep, and the packaged kinds.yaml: ``python -m
tests.detection.kinds``.

The page shows what each claim says on each kind of cluster. If there is a healthy lab of the kind,
it is the verdict in the table of rows. Otherwise it is the reason why the claim does not apply,
found by detection on objects of the platform, or what the claim waits for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from conformance.catalog import (
    Claim,
    IsolationKind,
    NotApplicable,
    Undecided,
    applicability,
    catalog,
)
from conformance.catalog.kinds import DATA
from conformance.facts.detect import detect
from conformance.model.facts import Facts
from tests.detection.table import Table, shipped
from tests.unit.conformance.facts.platforms.served import clusters, served

PAGE = Path(__file__).parents[2] / "docs" / "modes-table.md"
PROFILE, TEST, HAND = "waits for a profile", "waits for a test", "by hand"


class Kind(NamedTuple):
    """A kind of cluster: its title, the lab's profile, and objects of its platform; empty: there
    are none.

    ``builds``: the builds of its Windows nodes if its objects have others; ``why``: the reason why
    there is no profile.
    """

    title: str
    profile: str = ""
    objects: str = ""
    builds: tuple[tuple[int, int], ...] = ()
    why: str = ""


REFUSED = (
    "the suite refuses OpenShift with exit code 7: its SecurityContextConstraints refuse the "
    "suite's pods"
)
KINDS = {
    "vxlan": Kind(
        "Calico VXLAN by operator, Kubernetes datastore, Server 2022 and 2019, containerd",
        "default", "kubeadm-operator", ((20348, 2762), (17763, 6414)),
    ),
    "small": Kind("the same with one Linux and one Windows node", "small", "kubeadm-operator"),
    "1809": Kind(
        "Calico VXLAN, Server 2019 before 17763.1432, no direct server return",
        "vxlan-1809", "kubeadm-operator", ((17763, 1397),),
    ),
    "manual": Kind("Calico VXLAN, on Windows as services of the host", "windows-services", "manual-services"),
    "manifest": Kind(
        "Calico v3.26 VXLAN by manifest",
        "manifest", "kubeadm-manifest", ((20348, 2762), (17763, 6414)),
    ),
    "small-manifest": Kind(
        "the same with one untainted Linux node and one Windows node",
        "small-manifest", "kubeadm-manifest",
    ),
    "bgp": Kind("Calico BGP by operator", "bgp", "bgp-operator"),
    "bgp-reflector": Kind(
        "Calico BGP by operator, a Linux route reflector in place of the mesh",
        "bgp-reflector", "bgp-operator",
    ),
    "bgp-host-local": Kind(
        "Calico BGP with host-local addresses", "", "bgp-host-local",
        why="every release that was read breaks Windows pods there, as the lab "
        "bgp-host-local-as-shipped shows",
    ),
    "dual-subnet": Kind(
        "Calico BGP by operator, nodes in two subnets with BGP routers between",
        "dual-subnet", "bgp-operator",
    ),
    "vxlan-dual-subnet": Kind(
        "Calico VXLAN by operator, nodes in two subnets with a router between",
        "vxlan-dual-subnet", "kubeadm-operator", ((20348, 2762), (17763, 6414)),
    ),
    "cloud-routes": Kind(
        "routes of the cloud, Calico's plugin with host-local addresses",
        "cloud-routes", "cloud-routes-operator",
    ),
    "win-bridge": Kind("static routes with win-bridge, Calico for policy", "static-routes", "win-bridge"),
    "flannel-host-gw": Kind("flannel host-gw, Calico for policy", "canal-host-gw", "canal-host-gw"),
    "flannel-vxlan": Kind("flannel VXLAN, Calico for policy", "flannel-vxlan", "flannel-vxlan"),
    "aks": Kind("AKS with Azure CNI, Calico as the platform's services", "aks-addon", "aks"),
    "aks-operator": Kind("AKS with Azure CNI, Calico by operator", "aks-operator", "aks-operator"),
    "eks": Kind("EKS with VPC CNI, Calico by operator", "eks-vpc", "eks-vpc-cni"),
    "eks-calico": Kind("EKS with Calico's own plugin over VXLAN, Calico v3.19", "eks-no-dsr", "eks-calico-cni"),
    "openshift": Kind("OpenShift, Calico VXLAN", "", "openshift", why=REFUSED),
    "openshift-bgp": Kind("OpenShift, Calico BGP", "", "openshift-bgp", why=REFUSED),
    "rke1": Kind(
        "RKE1", "", "rke1",
        why="the suite refuses it with exit code 7: RKE1 runs no Calico on Windows nodes",
    ),
    "rke2": Kind("RKE2, Calico VXLAN", "rke2", "rke2"),
    "rke2-bgp": Kind("RKE2, Calico BGP", "rke2-bgp", "rke2-bgp"),
    "etcd": Kind(
        "etcd datastore, Calico VXLAN as services", "", "etcd-services",
        why="the lab's Calico keeps its objects in the Kubernetes API, and the lab has no calicoctl",
    ),
    "1903": Kind(
        "Windows Server 1903, Docker, Calico v3.16 VXLAN as services",
        "windows-1903", "manual-services", ((18362, 1256),),
    ),
    "blog": Kind(
        "the cluster of the walkthrough of 2020: one Linux node, one of 1903, Docker, Calico v3.16 "
        "VXLAN as services, with the Kubernetes datastore in place of etcd",
        "blog-kdd", "manual-services", ((18362, 1256),),
    ),
    "20H2": Kind(
        "Windows Server 20H2, Calico v3.25 VXLAN as services",
        "windows-20h2", "manual-services", ((19042, 1706),),
    ),
    "2025": Kind("Windows Server 2025", "windows-2025", "kubeadm-operator", ((20348, 2762), (26100, 6899))),
    "docker": Kind(
        "Docker in place of containerd, Server 2019, Calico v3.25 VXLAN as services",
        "docker", "manual-services", ((17763, 3887),),
    ),
}  # fmt: skip
LABS = {"vxlan": "the default lab", "bgp": "the lab `bgp`"}
"""Kinds for which the page explains why a claim is not decided."""
DECIDED = ("CONFIRMED", "NOT_OBSERVED", "LIFTED", "ADVISED", "UNMET")
FIRST = Path(__file__).with_name("first_claims.txt").read_text(encoding="ascii").split()
"""The claims as they were before the first of them was split (2026-11-24)."""
REASONS = {
    "HOST-1": "it waits for a look at a real host: the walkthrough (1903) says no, and Kubernetes lists node to pod as "
    "supported, so that a lab's Windows host would only repeat what was chosen for it",
    "UNSUP-3": "nothing there asks for it: WireGuard is off",
    "XLC-1": "nothing there has run for the 24 h that a token lives",
    "UNSUP-4": "nothing there asks for it: Linux nodes run no eBPF",
    "UNSUP-5": "nothing there asks for it: no pod has an address of IPv6",
    "BGP-2": "nothing there asks for it: no BGPPeer selects a Windows node; it is decided on dual-subnet",
    "SVC-3": "nothing there asks for it: Calico advertises no service network",
}
"""Reasons why a claim with a test is NOT_RUN on these kinds."""
HEAD = """\
# What each claim says on each kind of cluster
Written by `make docs` from the rows without faults of [`tests/detection/rows`](../tests/detection/rows) and from
objects of platforms; not kept in git. [Kinds of clusters](modes.md) explains the words.
"""
SHORT = {"NOT_APPLICABLE": "-", PROFILE: "profile", TEST: "test", HAND: "hand", "unknown": "?"}


def expected() -> dict[str, dict[str, object]]:
    """Map each kind to its title and to what each claim says on it."""
    facts, table = detected(), shipped()
    return {
        name: {
            "title": kind.title,
            "claims": {
                claim.id: _said(claim, kind, built(facts, kind), table)
                for claim in catalog().values()
            },
        }
        for name, kind in KINDS.items()
    }


def detected() -> dict[str, Facts]:
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for cluster in clusters():
            if cluster.name in {kind.objects for kind in KINDS.values()}:
                with served(cluster, Path(scratch)) as kube:
                    found[cluster.name] = detect(kube)
    return found


def built(facts: dict[str, Facts], kind: Kind) -> Facts | None:
    """Return the facts of a kind, with a Windows node for each of its builds."""
    found = facts.get(kind.objects)
    if found is None or not kind.builds:
        return found
    one = found.by_os("windows")[0]
    windows = tuple(
        replace(one, name=f"windows-{build}", windows_build=(build, ubr))
        for build, ubr in kind.builds
    )
    return replace(found, nodes=(*found.by_os("linux"), *windows))


def _said(claim: Claim, kind: Kind, facts: Facts | None, table: Table) -> str:
    if kind.profile and claim.id in table.clean:
        clean = table.clean_of("" if kind.profile == "default" else kind.profile)[claim.id]
        about = applicability(claim, facts) if facts and clean == "NOT_APPLICABLE" else None
        return (
            f"{clean}: it is about {about.condition}" if isinstance(about, NotApplicable) else clean
        )
    about = applicability(claim, facts) if facts else None
    if isinstance(about, NotApplicable):
        return f"NOT_APPLICABLE: it is about {about.condition}"
    if isinstance(about, Undecided):
        return f"unknown: it is about {about.condition}"
    if claim.isolation.kind is IsolationKind.MANUAL:
        return HAND
    if claim.id not in table.clean:
        return TEST
    return f"{PROFILE}: {kind.why}" if kind.why else PROFILE


def page(found: dict[str, dict[str, object]]) -> str:
    """Return the text of docs/modes-table.md."""
    lines = [HEAD, "| kind | cluster | here |", "| --- | --- | --- |"]
    for name, kind in KINDS.items():
        alone = f"objects alone{f': {kind.why}' if kind.why else ''}"
        here = f"profile `{kind.profile}`" if kind.profile else alone
        lines.append(f"| {name} | {kind.title} | {here} |")
    lines += ["", f"| claim | {' | '.join(KINDS)} |", f"| --- |{' --- |' * len(KINDS)}"]
    for claim in found["vxlan"]["claims"]:  # type: ignore[attr-defined]
        told = [str(found[name]["claims"][claim]) for name in KINDS]  # type: ignore[index]
        words = [SHORT.get(text.partition(":")[0], text.partition(":")[0]) for text in told]
        lines.append(f"| {claim} | {' | '.join(words)} |")
    for name, lab in LABS.items():
        lines += _decided(lab, found[name]["claims"])
    return "\n".join(lines) + "\n"


def _decided(lab: str, said: Any) -> Iterator[str]:
    """Yield the number of claims that a lab decides, and for each other claim the reason."""
    decided = [claim for claim, text in said.items() if text in DECIDED]
    first = [claim for claim in decided if claim in FIRST]
    yield ""
    yield f"## What {lab} decides"
    yield (
        f"{len(first)} of the {len(FIRST)} claims that there were before some were split in November 2026, and "
        f"{len(decided) - len(first)} of the {len(said) - len(FIRST)} that came since. Why each of the others is not:"
    )
    yield from ("", "| claim | reason |", "| --- | --- |")
    for claim, text in said.items():
        if claim not in decided:
            yield f"| {claim} | {_reason(claim, text)} |"


def _reason(claim: str, text: str) -> str:
    """Return why a claim is not decided on a lab."""
    word, _, why = text.partition(": ")
    if word == TEST and claim not in REASONS:
        shared = catalog()[claim].isolation.kind is IsolationKind.DISRUPTIVE
        return f"it waits for a test{', which would change what belongs to everybody' if shared else ''}"
    if word == "NOT_APPLICABLE":
        return why or f"it is about {catalog()[claim].applies}"
    return (
        why
        or REASONS.get(claim)
        or {HAND: "no program can decide it"}.get(word, f"it is {word} there")
    )


def packaged(found: dict[str, dict[str, object]]) -> str:
    """Return the text of kinds.yaml."""
    head = "# The verdict of each claim on each healthy kind of cluster. Written by `python -m tests.detection.kinds`.\n"
    return head + yaml.safe_dump(found, sort_keys=False, width=200)


if __name__ == "__main__":
    told = expected()
    DATA.write_text(packaged(told), encoding="utf-8")
    PAGE.write_text(page(told), encoding="utf-8")
