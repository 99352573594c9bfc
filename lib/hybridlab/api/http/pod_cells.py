# SPDX-License-Identifier: Apache-2.0
"""A pod's readiness, status and restarts, as ``kubectl get pods`` shows them."""

from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.http.ages import age


def _statuses(pod: Obj, group: str) -> list[Obj]:
    return list((pod.get("status") or {}).get(group) or ())


def pod_ready(pod: Obj) -> str:
    """Return the numbers of ready containers and of all containers, such as ``1/2``."""
    ready = sum(bool(item.get("ready")) for item in _statuses(pod, "containerStatuses"))
    return f"{ready}/{len(pod['spec']['containers'])}"


def pod_restarts(pod: Obj) -> str:
    """Return the number of restarts of the containers, and how long ago the last restart was."""
    count = 0
    last = ""
    for item in _statuses(pod, "containerStatuses"):
        count += item.get("restartCount", 0)
        finished = ((item.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        last = max(last, finished)
    return f"{count} ({age(last)} ago)" if count and last else str(count)


def _ended(terminated: Obj) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _init_status(pod: Obj) -> str | None:
    """Return the state of the first unfinished init container; None when all have finished."""
    total = len(pod["spec"].get("initContainers") or ())
    for index, item in enumerate(_statuses(pod, "initContainerStatuses")):
        state: dict[str, Any] = item.get("state") or {}
        terminated = state.get("terminated")
        waiting = state.get("waiting")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if terminated is not None:
            return f"Init:{_ended(terminated)}"
        if waiting is not None and waiting.get("reason") not in {None, "", "PodInitializing"}:
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return None


def _condition(pod: Obj, kind: str) -> Obj:
    """Return a condition of a pod; empty if it has none of this type."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if item["type"] == kind), {})


def _containers_status(pod: Obj, reason: str) -> str:
    """Return the reason of the first container whose status has a reason; return ``reason`` if no
    container has one."""
    running = False
    for item in reversed(_statuses(pod, "containerStatuses")):
        state = item.get("state") or {}
        waiting = state.get("waiting")
        terminated = state.get("terminated")
        if waiting is not None and waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _ended(terminated)
        elif item.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        return "Running" if _condition(pod, "Ready").get("status") == "True" else "NotReady"
    return str(reason)


def pod_status(pod: Obj) -> str:
    """Return the word in the STATUS column."""
    status = pod.get("status") or {}
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    starting = _init_status(pod)
    if starting is not None:
        return starting
    reason = status.get("reason") or status.get("phase") or "Unknown"
    if _condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    return _containers_status(pod, reason)
