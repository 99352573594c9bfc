# SPDX-License-Identifier: Apache-2.0
"""Changes of a pod since the suite began to use it: replaced, restarted, deleted, another
address."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from conformance.kube import pod_state
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import pod_address
from conformance.model.counted import counted
from conformance.model.endpoint import Workload


def changed(workload: Workload, pod: Obj | None) -> str:
    """Return the change of a pod since it became a Workload; an empty string if nothing changed.
    ``pod``: its present state; None: deleted."""
    what = " is gone" if pod is None else next(_changes(workload, pod), "")
    return f"pod {workload.label}{what}" if what else ""


def _changes(workload: Workload, pod: Obj) -> Iterator[str]:
    """Yield the changes of a pod, most significant first."""
    status = pod.get("status") or {}
    statuses = status.get("containerStatuses") or []
    if pod["metadata"]["uid"] != workload.uid:
        node = pod["spec"].get("nodeName") or "none yet"
        yield f" was replaced by another pod of the same name on node {node}"
    yield from () if workload.is_ending else _deletion(pod)
    if again := pod_state.restarts(pod) - workload.restarts:
        yield f" restarted {counted(again, 'time')}: {_last_ends(statuses)}"
    if status.get("phase") != "Running":
        yield f" is {pod_state.pod_state(pod) if status.get('reason') else status.get('phase')}"
    # if no container is restarted, only the end of the suite's own container in the pod is a change
    once = (pod.get("spec") or {}).get("restartPolicy") == "Never"
    yield from _stopped(
        [status for status in statuses if not once or status["name"] == workload.container]
    )
    if (pod_address(status) or workload.address) != workload.address:  # the pod has a new sandbox
        yield f" has another address, {pod_address(status)} instead of {workload.address}"


def _deletion(pod: Obj) -> Iterator[str]:
    if pod["metadata"].get("deletionTimestamp"):
        yield f" is being deleted{_disruption(pod.get('status') or {})}"


def _disruption(status: Obj) -> str:
    """Return `` (...)`` with the message of the disruption that evicts a pod; an empty string if
    there is none."""
    conditions = {
        condition.get("type"): condition.get("message")
        for condition in status.get("conditions") or []
    }
    by = conditions.get("DisruptionTarget")
    return f" ({by})" if by else ""


def _last_ends(statuses: Sequence[Obj]) -> str:
    """Return how the earlier runs of restarted containers ended."""
    ends = [
        f"{status['name']}: {end.get('reason')} (exit code {end.get('exitCode')})"
        for status in statuses
        if (end := (status.get("lastState") or {}).get("terminated"))
    ]
    return ", ".join(ends) or "no reason given"


def _stopped(statuses: Sequence[Obj]) -> Iterator[str]:
    """Yield a text for each container that has ended and was not started again yet: the number of
    restarts does not show this end."""
    for status in statuses:
        state = status.get("state") or {}
        ended = state.get("terminated") or state.get("waiting")
        if ended is not None:
            why = ended.get("reason") or "no reason given"
            yield f": its container {status['name']} is not running: {why}"


def changed_among(kube: Kube, workloads: Iterable[Workload]) -> dict[str, str]:
    """Return the change of each changed pod (:func:`changed`), by the pod's uid, with one request
    per namespace."""
    by_uid = {workload.uid: workload for workload in workloads}
    now = there_now(kube, by_uid.values())
    found = {
        uid: changed(workload, now.get((workload.namespace, workload.pod)))
        for uid, workload in by_uid.items()
    }
    return {uid: text for uid, text in found.items() if text}


def unready(kube: Kube, workloads: Sequence[Workload], since: float) -> str:
    """Return which pods the kubelet reported unready after ``since`` (Unix s), or reports unready
    now; an empty string if there is none.

    The state of a pod when it became a Workload does not count, whatever its node's clock shows.
    """
    now = there_now(kube, workloads)
    return "; ".join(
        f"pod {pod.label} {'was not ready until' if ready else 'is not ready since'} {at}, "
        "according to the kubelet's probes"
        for pod in workloads
        for ready, at in [pod_state.containers_ready_since(now.get((pod.namespace, pod.pod)) or {})]
        if not ready
        or (at not in ("", pod.ready_since) and datetime.fromisoformat(at).timestamp() >= since)
    )


def there_now(kube: Kube, workloads: Iterable[Workload]) -> dict[tuple[str, str], Obj]:
    """Return every pod of the namespaces of some workloads, by namespace and name, with one request
    per namespace."""
    return {
        (namespace, workload["metadata"]["name"]): workload
        for namespace in sorted({workload.namespace for workload in workloads})
        for workload in kube.objects("v1", "Pod", namespace)
    }
