# SPDX-License-Identifier: Apache-2.0
"""Calico's own DaemonSets, however they were installed. Owner, selector and command identify them,
since names differ.

On Linux the DaemonSet is ``calico-node``, or ``canal`` if flannel carries the pods' packets. On
Windows the operator's and Calico's manifests call it ``calico-node-windows`` and give it the same
labels. SIG-Windows' DaemonSet (cluster-api-provider-azure, templates/addons/windows/calico) has the
same name, but different labels and containers. A cluster with this DaemonSet may have an operator
that does not manage it.
"""

import re
from dataclasses import dataclass

from conformance.facts.reading import Reading
from conformance.facts.workloads import all_containers, command_line
from conformance.kube.client import Obj
from conformance.kube.fields import list_at, mapping_at, value_at

NAMESPACES = ("calico-system", "kube-system")
"""Namespaces of the operator and of Calico's manifests; edited manifests may use another
namespace."""
LINUX = ("calico-node", "canal", "rke2-canal")
WINDOWS = "calico-node-windows"
FELIX = re.compile(r"felix-service\.ps1|calico-node(?:\.exe)?[\"']?\s+-felix\b|component felix")
"""Commands that start Felix on Windows: Calico's script, or the program itself."""
NODE = re.compile(r"(?:calico|tigera)[^:@]*[/-]node(?:$|[:@])")
"""Image of calico-node on Linux, whatever its DaemonSet is called (Kubespray: ``canal-node``)."""
OS = "kubernetes.io/os"


@dataclass(frozen=True)
class CalicoWorkloads:
    """The DaemonSets of calico-node in a cluster."""

    linux: Obj | None
    windows: Obj | None

    @property
    def of_the_operator(self) -> bool:
        """Return whether Calico's operator owns the DaemonSet on Windows."""
        return any(
            owner.get("kind") == "Installation"
            for owner in list_at(self.windows, "metadata", "ownerReferences")
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the beginnings of the names of Calico's pods, on both operating systems."""
        there = [one["metadata"]["name"] for one in (self.linux, self.windows) if one]
        return tuple(f"{name}-" for name in dict.fromkeys([*LINUX, *there]))

    @property
    def felix_pods(self) -> str:
        """Return the label selector of Calico's pods on Windows: the DaemonSet's selector, else the
        selector of the operator's pods."""
        labels = mapping_at(self.windows, "spec", "selector", "matchLabels") or {"k8s-app": WINDOWS}
        return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def workloads(reading: Reading) -> CalicoWorkloads:
    """Return Calico's own DaemonSets in the cluster."""
    found = _everywhere(reading, "apps/v1", "DaemonSet")
    by_name = {obj["metadata"]["name"]: obj for obj in reversed(found)}
    named = next((by_name[name] for name in LINUX if name in by_name), None)
    linux = named or next((one for one in found if _on_linux(one)), None)
    return CalicoWorkloads(linux, by_name.get(WINDOWS) or next(filter(_on_windows, found), None))


def pods(reading: Reading, found: CalicoWorkloads) -> list[Obj]:
    """Return the pods of all namespaces in which Calico's DaemonSets are, or may be."""
    spaces = {
        *NAMESPACES,
        *(one["metadata"]["namespace"] for one in (found.linux, found.windows) if one),
    }
    return [
        pod for pod in _everywhere(reading, "v1", "Pod") if pod["metadata"]["namespace"] in spaces
    ]


def _everywhere(reading: Reading, version: str, kind: str) -> list[Obj]:
    """Return the objects of all namespaces; objects of Calico's usual namespaces come first.

    If the user may not list all namespaces, only the objects of the usual namespaces are returned.
    """
    named = [(obj["metadata"].get("namespace", ""), obj) for obj in reading.all(version, kind)]
    known = [
        (space, obj)
        for space in NAMESPACES
        for obj in ([] if named else reading.all(version, kind, space))
    ]
    found = [
        {**obj, "metadata": {**obj["metadata"], "namespace": space}}
        for space, obj in [*named, *known]
    ]
    usual = {space: number for number, space in enumerate(NAMESPACES)}
    return sorted(found, key=lambda obj: usual.get(obj["metadata"]["namespace"], len(usual)))


def _on_linux(daemonset: Obj) -> bool:
    """Return whether the DaemonSet runs calico-node on Linux nodes."""
    images = [str(container.get("image")) for container in all_containers(daemonset)]
    return not _on_windows(daemonset) and any(map(NODE.search, images))


def _on_windows(daemonset: Obj) -> bool:
    """Return whether the DaemonSet runs Felix on Windows nodes."""
    return daemonset["metadata"]["name"] == WINDOWS or (
        _selects_windows(mapping_at(daemonset, "spec", "template", "spec"))
        and any(FELIX.search(command_line(container)) for container in all_containers(daemonset))
    )


def _selects_windows(spec: Obj) -> bool:
    """Return whether all pods of a DaemonSet go to Windows nodes: by node selector, or by affinity
    as in SIG-Windows' manifests."""
    affinity = mapping_at(spec, "affinity", "nodeAffinity")
    terms = list_at(affinity, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    wanted = {"key": OS, "operator": "In", "values": ["windows"]}
    by_affinity = bool(terms) and all(
        wanted in (term.get("matchExpressions") or []) for term in terms
    )
    return by_affinity or value_at(spec, "nodeSelector", OS) == "windows"
