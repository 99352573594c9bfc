# SPDX-License-Identifier: Apache-2.0
"""Finds Windows nodes on which Felix runs neither in a pod nor as a process on the host."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from conformance.facts.calico_workloads import NAMESPACES
from conformance.facts.diagnostics_bundle import calico_pods, is_calico_node
from conformance.facts.felix_state import felix_down
from conformance.facts.reading import required
from conformance.kube.client import Kube


@dataclass(frozen=True)
class FelixProcesses:
    """Reads, for one worker, on which nodes Felix runs."""

    kube: Kube
    before: Mapping[str, int]
    """The number of Felix' restarts in its pod when the run began, by node."""
    program: Callable[[str], tuple[str, str]] | None = None
    """Returns path and version of the program that runs as Felix on a node's host, or empty strings
    if no such program runs. None: on this cluster Felix runs only in pods."""

    def in_pods(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return the nodes whose Felix pod does not run, each with the state of the pod. Return no
        nodes if the pods cannot be listed."""
        return felix_down(calico_pods(self.kube, nodes), nodes, self.before) if nodes else {}

    def down(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return the nodes on which Felix does not run: the nodes of :meth:`in_pods`, and nodes
        with neither a pod of Felix nor a process of Felix on the host. Raise MissingCapability if
        the run may not list pods or read hosts, ProbeBroken if the read of a host fails."""
        pods = required(
            "pods of Calico",
            "list them",
            lambda: [
                pod
                for space in NAMESPACES
                for pod in self.kube.objects("v1", "Pod", space)
                if is_calico_node(pod)
            ],
        )
        there = {(pod.get("spec") or {}).get("nodeName") for pod in pods}
        gone = (
            "the node has no pod of calico-node"
            if self.program is None
            else "the node has no process of Felix"
        )
        without = [
            node
            for node in nodes
            if node not in there and not (self.program and self.program(node)[0])
        ]
        return felix_down(pods, nodes, self.before) | dict.fromkeys(without, gone)
