# SPDX-License-Identifier: Apache-2.0
"""Diagnostics of the cluster after a failure: events, Calico's logs on the nodes involved, Linux
routes.

The parts are independent: a part that cannot be read contains the reason instead, and never hides
the failure of the test.
"""

import functools
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from conformance.errors import SuiteError
from conformance.kube import execute
from conformance.kube.client import Kube, Obj
from conformance.kube.pod_state import is_ready
from conformance.kube.waits import when
from conformance.model.endpoint import Workload

CALICO_NAMESPACES = ("calico-system", "kube-system")
NODE_COMMANDS = (("ip", "route"), ("ip", "link"), ("ip", "neigh"))
"""Commands that are run in a pod on a Linux node's network; busybox has them."""
CALICO_COMMANDS = (("bridge", "fdb"),)
"""Commands that are run in calico-node on Linux, whose image has iproute2."""


def collect(
    kube: Kube,
    *,
    namespaces: Sequence[str],
    nodes: Sequence[str],
    node_pods: Sequence[Workload] = (),
    tail: int = 300,
    within: float = 10.0,
) -> dict[str, str]:
    """Return the text of each attachment, by the attachment's name.

    ``node_pods``: pods in the network of Linux nodes, through which routes are read. ``tail``: the
    number of lines of each log.
    """
    parts: dict[str, Callable[[], str]] = {}
    for namespace in namespaces:
        parts[f"events of {namespace}"] = functools.partial(_events, kube, namespace)
    for pod in calico_pods(kube, nodes):
        pod_name = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        containers = [container["name"] for container in pod["spec"]["containers"]]
        node = pod["spec"]["nodeName"]
        for container in containers:
            parts[f"log of {pod_name[1]} {container} on {node}"] = functools.partial(
                kube.logs, *pod_name, container, tail=tail
            )
        if containers[0] == "calico-node":
            parts[f"fdb of {node}"] = functools.partial(
                _ask, kube, (*pod_name, "calico-node"), CALICO_COMMANDS, within
            )
    for node_pod in node_pods:
        if node_pod.node in nodes:
            where = (node_pod.namespace, node_pod.pod, node_pod.container)
            parts[f"routes of {node_pod.node}"] = functools.partial(
                _ask, kube, where, NODE_COMMANDS, within
            )
    with ThreadPoolExecutor(max_workers=8) as pool:
        return dict(zip(parts, pool.map(_guarded, parts.values()), strict=True))


def late_pods(kube: Kube, namespaces: Sequence[str]) -> list[Obj]:
    """Return the pods of these namespaces that are not ready. Skip a namespace whose pods cannot be
    listed."""
    found: list[Obj] = []
    for namespace in namespaces:
        try:
            found += [pod for pod in kube.objects("v1", "Pod", namespace) if not is_ready(pod)]
        except SuiteError:
            continue
    return found


def states(pods: Sequence[Obj]) -> dict[str, str]:
    """Return the status of each of these pods, as the API server has it, by the name of its
    attachment."""
    return {
        f"status of pod {pod['metadata']['name']}": json.dumps(pod.get("status") or {}, indent=2)
        for pod in pods
    }


def _guarded(read: Callable[[], str]) -> str:
    try:
        return read() or "(empty)"
    except SuiteError as error:
        return f"(could not be read: {error})"


def _events(kube: Kube, namespace: str) -> str:
    lines = []
    for obj in sorted(kube.objects("v1", "Event", namespace), key=when):
        involved = obj.get("involvedObject") or {}
        lines.append(
            f"{when(obj)} {obj.get('type')} {obj.get('reason')} {involved.get('kind')}/{involved.get('name')}: "
            f"{obj.get('message')}"
        )
    return "\n".join(lines)


def calico_pods(kube: Kube, nodes: Sequence[str]) -> list[Obj]:
    """Return the calico-node pods on these nodes, of both operating systems. Skip a namespace whose
    pods cannot be listed."""
    found = []
    for namespace in CALICO_NAMESPACES:
        try:
            pods = kube.objects("v1", "Pod", namespace)
        except SuiteError:
            continue
        found += [
            pod for pod in pods if is_calico_node(pod) and pod["spec"].get("nodeName") in nodes
        ]
    return found


def is_calico_node(pod: Obj) -> bool:
    """Return whether a pod belongs to calico-node, on either operating system."""
    return str(pod["metadata"]["name"]).startswith("calico-node")


def _ask(
    kube: Kube, where: tuple[str, str, str], commands: Sequence[Sequence[str]], within: float
) -> str:
    texts = []
    for argv in commands:
        try:
            result = execute.run(kube, *where, argv, within=within)
            text = (
                result.output
                if result.exit_code == 0
                else f"(exit code {result.exit_code}) {result.output}"
            )
        except SuiteError as error:
            text = f"(could not be read: {error})"
        texts.append(f"# {' '.join(argv)}\n{text}")
    return "\n".join(texts)
