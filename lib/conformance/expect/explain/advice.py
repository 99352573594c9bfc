# SPDX-License-Identifier: Apache-2.0
"""Advice about where to look first if a path is not as expected. The functions build text from
their arguments alone."""

from collections.abc import Sequence
from typing import Literal

from conformance.expect.engine.answered import unexpected_backend
from conformance.expect.engine.names import UNSENT
from conformance.model.attempt import Attempt
from conformance.model.endpoint import OS, Addressing, Target, Workload
from conformance.model.observation import Observation, Verdict

Side = Literal["source", "target", "both"]
"""The end whose node enforces a policy: the source's for egress, the target's for ingress."""
DOWN = "Felix does not run on {node}"
"""The text about a node on which Felix does not run, the same in the report of every failing test.
"""
PROGRAMMED: dict[OS, str] = {
    "windows": "Windows: the ACLs in Get-HnsEndpoint",
    "linux": "Linux: iptables-save, or nft list table ip calico",
}
"""The command that shows what Felix has programmed for a pod on a node."""
SERVICES = (Addressing.CLUSTER_IP, Addressing.NODE_PORT, Addressing.NAME)
"""The ways to address a pod other than by its own address."""
TRANSLATES = "and compare OutBoundNAT and its ExceptionList (Get-HnsEndpoint)"
"""Advice to check the translation of a Windows pod's traffic to addresses outside the pools; the
node's name follows this text."""


def felix(attempt: Attempt, side: Side) -> str:
    """Return the advice to read Felix' log on the nodes that enforce the policy, and its
    programmed rules.
    """
    backends = attempt.target.backends if attempt.target else ()
    ends = [
        *(backends if side != "source" else ()),
        *((attempt.source,) if side != "target" else ()),
    ]
    ends = ends or [attempt.source]
    nodes = {end.node: "target" if end in backends else "source" for end in ends}
    place = " and ".join(f"node {node} ({role})" for node, role in nodes.items())
    shown = dict.fromkeys(PROGRAMMED[end.os] for end in ends)
    return "; ".join([f"read Felix' log on {place}", *shown, pods_on(*nodes)])


def pods_on(*nodes: str) -> str:
    """Return a command that lists the pods of calico-node and kube-proxy on some nodes."""
    return " ; ".join(
        f"kubectl get pods -A -o wide --field-selector=spec.nodeName={node}" for node in nodes
    )


def open_path(attempt: Attempt, observations: Sequence[Observation]) -> str:
    """Return advice for a path that should be open. ``observations``: all observations of the
    path's attempts."""
    target = attempt.target
    last = observations[-1] if observations else None
    nodes = between(attempt.source, target)
    if target is not None and target.path is Addressing.EXTERNAL and attempt.source.os == "windows":
        return (
            f"see CONN-3, {TRANSLATES} of pod {attempt.source.pod} on node {attempt.source.node} "
            "with natOutgoing of its IPPool: without OutBoundNAT, or with the target in the "
            "exceptions, no answer returns"
        )
    if last is None or target is None:
        return f"check the pods, and look for packet loss {nodes}"
    if last.verdict in UNSENT:
        return "see CONN-6: the name has to resolve before anything is sent"
    if unexpected_backend(last):
        return (
            kube_proxy(attempt.source, target)
            if target.path in SERVICES
            else (
                f"look up {target.host} in kubectl get pods -A -o wide: another pod has this "
                "address"
            )
        )
    by_verdict = {
        Verdict.REFUSED: _refused(attempt.source, target),
        Verdict.UNREACHABLE: "see VXLAN-2: a route is missing on one of the nodes",
        Verdict.PROHIBITED: f"look for a firewall on node {attempt.source.node}",
        Verdict.TIMED_OUT: f"see CONN-3, then look for policies, firewalls and packet loss {nodes}",
    }
    lossy = f"look for packet loss {nodes}, and at the server's log"
    return (
        by_verdict.get(last.verdict, lossy)
        if len({observation.verdict for observation in observations}) == 1
        else lossy
    )


def _refused(source: Workload, target: Target) -> str:
    """Return advice for a refusal. At a pod's own address, a refusal means that no program listens
    on the port. In all other cases, suspect kube-proxy."""
    if target.path in SERVICES:
        return kube_proxy(source, target)
    logs = "".join(f": kubectl logs -n {pod.namespace} {pod.pod}" for pod in target.backends[:1])
    return f"nothing listens at {target.label}: look at the server's pod and its log{logs}"


def kube_proxy(source: Workload, target: Target) -> str:
    """Return advice to look at the node that applies the Service's rules: the called node, or the
    source's node."""
    node = source.node
    system = source.os
    if target.path is Addressing.NODE_PORT:
        near = (*([target.at] if target.at else ()), *target.backends, source)
        called = next((pod for pod in near if pod.node_address == target.host), None)
        if called is None:
            return (
                f"compare kube-proxy's log and rules (Windows: Get-HnsPolicyList) on the called node, whose address is "
                f"{target.host}, with the Service's EndpointSlices"
            )
        node = called.node
        system = called.os
    rules = (
        "Get-HnsPolicyList and kube-proxy's log" if system == "windows" else "kube-proxy's rules"
    )
    return f"compare {rules} on node {node} with the Service's EndpointSlices: {pods_on(node)}"


def between(source: Workload, target: Target | None) -> str:
    """Return ``between node linux-1 and node windows-2``, or ``on node linux-1``."""
    nodes = list(
        dict.fromkeys(
            [source.node, *(backend.node for backend in (target.backends if target else ()))]
        )
    )
    return (
        f"on node {nodes[0]}"
        if len(nodes) == 1
        else "between " + " and ".join(f"node {node}" for node in nodes)
    )
