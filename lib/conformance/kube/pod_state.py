# SPDX-License-Identifier: Apache-2.0
"""The state of a pod, read from its object: whether it is ready, and why it is not, as a phrase."""

from collections.abc import Iterator, Sequence

from conformance.kube.client import Obj
from conformance.kube.fields import list_at, mapping_at, value_at

NEWER_THAN_NODE = "0xc0370106"
"""Windows' error for an image that needs a newer revision of Windows (Windows-Containers#591)."""
PULL_TROUBLE = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
)
SYSCTLS = "conformance/sysctls"
"""Annotation that lists the sysctls which the suite requested for the pod."""
HOPELESS_PULL = (
    "not found", "no match for platform", "manifest unknown", "pull access denied", "unauthorized", "forbidden",
    "invalid reference", "couldn't parse image", "operating system of the container does not match", "0xc0370101",
)  # fmt: skip
"""Texts of pull errors that waiting does not cure; other errors (a registry that is slow or busy)
may pass."""
HOPELESS_START = (
    "does not match the operating system",
    "0xc0370101",
    "executable file not found",
    "no such file",
)
"""Texts of start errors that waiting does not cure; other errors (HNS busy, a mount that is late)
may pass."""


def container_statuses(pod: Obj) -> list[Obj]:
    """Return the statuses of a pod's init containers and containers."""
    return [
        *list_at(pod, "status", "initContainerStatuses"),
        *list_at(pod, "status", "containerStatuses"),
    ]


def pulling(pod: Obj, events: Sequence[Obj]) -> str:
    """Return a phrase about the image that is still being pulled for a pod. ``events``: the pod's
    events, oldest first.

    Return an empty string if no image is being pulled, or if all containers run.
    """
    states = [mapping_at(status, "state") for status in container_statuses(pod)]
    pulls = [event for event in events if event.get("reason") in ("Pulling", "Pulled")]
    all_run = states and all("running" in state for state in states)
    if all_run or not pulls or pulls[-1]["reason"] == "Pulled":
        return ""
    return f"its image is still being pulled ({pulls[-1].get('message') or 'image unknown'})"


def is_replaced(pod: Obj) -> bool:
    """Return whether a pod is being deleted, or has ended for good (evicted by its kubelet) so that
    another pod replaces it.
    """
    meta = pod["metadata"]
    ended = value_at(pod, "status", "phase") in ("Failed", "Succeeded")
    return bool(meta.get("deletionTimestamp") or (ended and meta.get("ownerReferences")))


def is_ready(pod: Obj) -> bool:
    """Return whether a pod's Ready condition is true and it is not being deleted."""
    return _has(pod, type="Ready", status="True") and not pod["metadata"].get("deletionTimestamp")


def containers_ready(pod: Obj) -> bool:
    """Return whether all containers are ready and the pod is not terminating, whatever its
    readiness gates say.
    """
    return _has(pod, type="ContainersReady", status="True") and not pod["metadata"].get(
        "deletionTimestamp"
    )


def containers_ready_since(pod: Obj) -> tuple[bool, str]:
    """Return whether the kubelet reports all containers ready, and since when (RFC 3339). Without a
    report, return True and an empty string."""
    found: Obj = next(
        (
            each
            for each in list_at(pod, "status", "conditions")
            if each.get("type") == "ContainersReady"
        ),
        {},
    )
    return found.get("status") != "False", str(found.get("lastTransitionTime") or "")


def unschedulable(pod: Obj) -> bool:
    """Return whether the scheduler has found no node for a pod."""
    return _has(pod, type="PodScheduled", reason="Unschedulable")


def _has(pod: Obj, **wanted: str) -> bool:
    """Return whether a pod has a condition with these fields."""
    conditions = list_at(pod, "status", "conditions")
    return any(wanted.items() <= condition.items() for condition in conditions)


def restarts(pod: Obj) -> int:
    """Return the number of container restarts in a pod, all containers together."""
    return sum(
        int(container_status.get("restartCount") or 0)
        for container_status in list_at(pod, "status", "containerStatuses")
    )


def pod_state(pod: Obj) -> str:
    """Return a pod's state in one phrase: ``Ready``, ``ContainerCreating``, ``ImagePullBackOff``,
    ``Unschedulable: 0/6 nodes ...``."""
    return next(_phrases(pod))


def named_state(pod: Obj) -> str:
    """Return the pod's name, followed by its state: ``web Ready``."""
    return f"{pod['metadata']['name']} {pod_state(pod)}"


def _phrases(pod: Obj) -> Iterator[str]:
    """Yield phrases about the state in a pod's object, most significant first."""
    status = mapping_at(pod, "status")
    if pod["metadata"].get("deletionTimestamp"):
        yield "Terminating"
    if is_ready(pod):
        yield "Ready"
    if status.get("phase") == "Failed" and status.get("reason"):
        yield f"Failed, {status['reason']}: {status.get('message')}"
    yield from (
        f"{condition.get('reason')}: {condition.get('message')}"
        for condition in list_at(status, "conditions")
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False"
    )
    states = [(one.get("name"), mapping_at(one, "state")) for one in container_statuses(pod)]
    yield from (_waits(name, state["waiting"]) for name, state in states if "waiting" in state)
    yield from (
        _ended(name, state["terminated"]) for name, state in states if "terminated" in state
    )
    yield _not_ready(status)


def _not_ready(status: Obj) -> str:
    """Return the phase of a pod that is not ready, and which of its containers run, since when."""
    waited = "; ".join(
        f"{one['name']} has run since {since}, but its readiness probe has not passed"
        for one in list_at(status, "containerStatuses")
        if not one.get("ready") and (since := value_at(one, "state", "running", "startedAt"))
    )
    return f"{status.get('phase') or 'Pending'}, not ready{': ' if waited else ''}{waited}"


def _waits(container: str | None, state: Obj) -> str:
    text = f": {state['message']}" if state.get("message") else ""
    return f"{container} {state.get('reason')}{text}"


def _ended(container: str | None, state: Obj) -> str:
    how = f"{container} ended with exit code {state.get('exitCode')} ({state.get('reason')})"
    return f"{how} {state.get('message') or ''}".strip()


def without_sysctls(pod: Obj) -> str:
    """Return a message about the sysctls that admission has removed from a pod; an empty string if
    there are none."""
    asked = str(value_at(pod, "metadata", "annotations", SYSCTLS) or "")
    given = {item.get("name") for item in list_at(pod, "spec", "securityContext", "sysctls")}
    gone = ", ".join(name for name in asked.split(",") if name and name not in given)
    return (
        f"an admission webhook removed the pod's sysctls {gone}, without which the pod cannot ping "
        "or listen on ports below 1024"
        if gone
        else ""
    )


def hopeless(pod: Obj) -> str:
    """Return why waiting for this pod is useless; an empty string if it may become ready."""
    if problem := without_sysctls(pod):
        return problem
    for container_status in container_statuses(pod):
        waiting = mapping_at(container_status, "state", "waiting")
        reason = str(waiting.get("reason") or "")
        message = str(waiting.get("message") or "")
        if reason in ("InvalidImageName", "ErrImageNeverPull") or (
            reason in PULL_TROUBLE and any(text in message.lower() for text in HOPELESS_PULL)
        ):
            return f"image {container_status.get('image')} cannot be pulled: {reason}: {message}"
        if reason in ("RunContainerError", "CreateContainerError") and any(
            text in message.lower() for text in HOPELESS_START
        ):
            return f"container {container_status.get('name')} cannot start: {reason}: {message}"
        states = [mapping_at(container_status, name) for name in ("state", "lastState")]
        if "running" not in states[0] and NEWER_THAN_NODE in str(states):
            return (
                f"image {container_status.get('image')} is newer than its node, which cannot start "
                f"it ({NEWER_THAN_NODE}): install the node's updates, or name a tag of the node's "
                "own revision with --images, such as servercore:10.0.17763.1397"
            )
    return ""
