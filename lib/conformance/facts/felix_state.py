# SPDX-License-Identifier: Apache-2.0
"""The state of Felix on some nodes, one line for each node, for messages about failures on these
nodes. A state is no verdict. If a state cannot be read, the line has the reason instead."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from conformance.errors import SuiteError, first_line
from conformance.facts.diagnostics_bundle import calico_pods
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import list_at, mapping_at, value_at
from conformance.kube.pod_state import is_ready, pod_state, restarts
from conformance.model.counted import counted

WORTH_TELLING = re.compile(r"\[(WARNING|ERROR|FATAL|PANIC)\]")
"""Matches the lines of Felix' log that a message about policy shows; all other lines are in the
failure's bundle."""
SHOWN = 160
"""The number of characters of a log line that are shown."""
LOG_BYTES = 256 * 1024
"""Bytes of a log that are searched."""
LATELY = 300.0
"""The seconds after which a restart no longer explains present observations."""
MANY = 2
"""The number of restarts during a run from which Felix counts as not running."""
CONTAINERS = ("felix", "calico-node-felix", "calico-node")
"""Names of the containers that run Felix, on Windows and on Linux."""


def felix_on(
    kube: Kube, nodes: Sequence[str], seconds: float, *, unwell_only: bool = False
) -> list[str]:
    """Return ``windows-1: Ready, 2 restarts, started 4 s ago (kubectl logs ...), logged: ...`` for
    each node.

    ``seconds``: how far back Felix' log is searched for the newest line that is a warning or worse.
    ``unwell_only``: leave out nodes where Felix is ready and has not restarted lately, and nodes
    where Felix runs in no pod.
    """
    pods = {pod["spec"].get("nodeName"): pod for pod in calico_pods(kube, nodes)}
    return [
        f"{node}: {_told(kube, pods[node], seconds) if node in pods else 'no pod of calico-node was found'}"
        for node in dict.fromkeys(nodes)
        if not unwell_only or (node in pods and _is_unwell(pods[node]))
    ]


@dataclass(frozen=True)
class FelixPodState:
    """The state of Felix in its pod on one node."""

    runs: bool
    """True if the container runs and is ready."""
    told: str
    """The state in words: ``felix CrashLoopBackOff, 10 restarts``."""
    restarts: int
    """The number of restarts of the container since the pod was made."""


def felix_pod_states(pods: Sequence[Obj]) -> dict[str, FelixPodState]:
    """Return the state of Felix on each node, from these pods of calico-node. If a node has several
    pods, a pod that is not being deleted counts."""
    found: dict[str, FelixPodState] = {}
    for pod in sorted(pods, key=lambda pod: not pod["metadata"].get("deletionTimestamp")):
        status = _status(pod)
        count = int(status.get("restartCount") or 0)
        runs = "running" in (status.get("state") or {}) and bool(status.get("ready", is_ready(pod)))
        text = f"{'ready' if runs else _state(pod).partition(': ')[0]}, {counted(count, 'restart')}"
        found[(pod.get("spec") or {}).get("nodeName") or ""] = FelixPodState(runs, text, count)
    return found


def felix_down(
    pods: Sequence[Obj], nodes: Sequence[str], before: Mapping[str, int]
) -> dict[str, str]:
    """Return the nodes that have one of these pods and on which Felix does not run, each with the
    state of Felix. ``before``: the number of restarts of Felix when the run began. Felix that has
    restarted twice since then counts as not running."""
    return {
        node: one.told
        for node, one in felix_pod_states(pods).items()
        if node in nodes and (not one.runs or one.restarts - before.get(node, one.restarts) >= MANY)
    }


def _is_unwell(pod: Obj) -> bool:
    """Return whether the pod is not ready, or has restarted lately."""
    since = _started(pod)
    lately = since is not None and (datetime.now(UTC) - since).total_seconds() < LATELY
    return since is None or not is_ready(pod) or (lately and restarts(pod) > 0)


def _told(kube: Kube, pod: Obj, seconds: float) -> str:
    words = [_state(pod), counted(restarts(pod), "restart")]
    if since := _started(pod):
        words.append(f"started {(datetime.now(UTC) - since).total_seconds():.0f} s ago")
    meta = pod["metadata"]
    container = _container(pod)
    log = f"kubectl logs -n {meta['namespace']} {meta['name']}{f' -c {container}' if container else ''}"
    return ", ".join([f"{', '.join(words)} ({log})", *_said(kube, pod, seconds)])


def _container(pod: Obj) -> str:
    """Return the name of the pod's container that runs Felix, or an empty string if none does."""
    return next(
        (str(each["name"]) for each in pod["spec"]["containers"] if each["name"] in CONTAINERS), ""
    )


def _state(pod: Obj) -> str:
    """Return ``Ready``, or the state of the pod's ordinary containers; the init containers, which
    have ended, do not count."""
    return pod_state({**pod, "status": {**mapping_at(pod, "status"), "initContainerStatuses": []}})


def _started(pod: Obj) -> datetime | None:
    """Return when the container that runs Felix was last started; None if it does not run."""
    begun = value_at(_status(pod), "state", "running", "startedAt")
    return datetime.fromisoformat(begun) if begun else None


def _status(pod: Obj) -> Obj:
    """Return the status of the container that runs Felix; an empty mapping if the pod has no such
    container."""
    return next(
        (
            each
            for each in list_at(pod, "status", "containerStatuses")
            if each.get("name") in CONTAINERS
        ),
        {},
    )


def _said(kube: Kube, pod: Obj, seconds: float) -> list[str]:
    meta = pod["metadata"]
    if not (container := _container(pod)):
        return []
    try:
        text = kube.logs(meta["namespace"], meta["name"], container, since=seconds, head=LOG_BYTES)
    except SuiteError as error:
        return [f"its log could not be read: {first_line(error)[:SHOWN]}"]
    worth = [line for line in text.splitlines() if WORTH_TELLING.search(line)]
    return [f"logged: {worth[-1].strip()[:SHOWN]}"] if worth else []
