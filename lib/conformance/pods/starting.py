# SPDX-License-Identifier: Apache-2.0
"""Pods that did not become ready: decides which of these failures show something about the
cluster."""

import re
from collections.abc import Callable, Iterator, Sequence

from conformance.errors import EnvironmentBroken, Nonconformance, first_line
from conformance.kube.client import Obj
from conformance.kube.pod_state import PULL_TROUBLE, hopeless, pod_state, pulling
from conformance.model.counted import counted
from conformance.model.decision import Decision, decision_on
from conformance.model.facts import NodeFacts
from conformance.pods import tailor
from conformance.verdicts.meaning import of_error

__tracebackhide__ = True  # a failure shows the line of the test instead of this module's

OWN = frozenset({*PULL_TROUBLE, "CrashLoopBackOff", "RunContainerError", "CreateContainerError"})
"""States of containers with a wrong image or program. The pod's network was set up before."""
NETWORK = re.compile(
    r"network for sandbox|network plugin|networkPlugin|plugin type=|\bCNI\b|calico", re.IGNORECASE
)
"""Matches FailedCreatePodSandBox's message if the network failed. This happens before any image of
the pod is used."""
REFUSAL = re.compile(r"(?:failed \(add\)|networkPlugin cni failed to set up pod .* network): (.+)")
"""Matches the network plugin's own text in the message of event FailedCreatePodSandBox, after the
kubelet's text."""
KILLED = re.compile(r"failed (liveness|startup) probe", re.IGNORECASE)
"""Matches the message of the event Killing if a probe is the cause: the kubelet restarts the
container, and its status does not show this yet."""


def decision_on_failure(node: NodeFacts, error: BaseException) -> Decision:
    """Return the decision about a pod's node that follows from an error about the pod."""
    return decision_on(node, of_error(error), first_line(error), "behaviour")


def own_fault(pod: Obj) -> str:
    """Return the fault of a pod's own image or program, with its container; an empty string if
    there is none."""
    if problem := hopeless(pod):
        return problem
    for status in _containers(pod):
        if faults := list(_faults(status)):
            return f"container {status.get('name')} {', '.join(faults)}"
    return ""


def _containers(pod: Obj) -> list[Obj]:
    """Return the statuses of a pod's containers, init containers first."""
    status = pod.get("status") or {}
    return [
        container
        for kind in ("initContainerStatuses", "containerStatuses")
        for container in status.get(kind) or []
    ]


def _faults(status: Obj) -> Iterator[str]:
    """Yield a container's waiting reason, its last end and its number of restarts."""
    state = status.get("state") or {}
    waiting = str((state.get("waiting") or {}).get("reason") or "")
    if waiting in OWN:
        yield waiting
    ended = state.get("terminated") or (status.get("lastState") or {}).get("terminated")
    if ended is not None:
        reason = ended.get("reason") or "no reason given"
        yield f"ended with exit code {ended.get('exitCode')} ({reason})"
    if again := int(status.get("restartCount") or 0):
        yield f"restarted {counted(again, 'time')}"


def nothing_ran(pod: Obj, events: Sequence[Obj]) -> str:
    """Return why a pod that is not ready is no evidence about its network; an empty string if the
    pod is evidence.

    A pod is evidence if one of its containers runs, if its kubelet reported that the image exists
    on the node, or if the kubelet reported that the network failed. A pod is no evidence if an
    image of any of its containers is still being pulled, a liveness or startup probe kills a
    container, the kubelet is busy or dead, or Windows does not create the sandbox.
    """
    states = [container.get("state") or {} for container in _containers(pod)]
    messages = {str(event.get("reason")): str(event.get("message") or "") for event in events}
    if KILLED.search(messages.get("Killing", "")):
        return f"its probe killed it: {messages['Killing']}"
    if pull := pulling(pod, events):
        return pull
    sandbox = messages.get("FailedCreatePodSandBox", "")
    ran = "Pulled" in messages or any("running" in state for state in states)
    if ran or NETWORK.search(sandbox):
        return ""
    if "FailedCreatePodSandBox" in messages:
        return f"its sandbox could not be created: {sandbox.partition(chr(10))[0]}"
    return "none of its containers ran, and its kubelet has not reported the image"


def plugin_words(events: Sequence[Obj]) -> str:
    """Return the network plugin's own message in the newest event in which the plugin refused a
    pod's sandbox; an empty string if there is no such event. ``events``: oldest first."""
    found = (
        REFUSAL.search(str(event.get("message") or ""))
        for event in reversed(events)
        if event.get("reason") == "FailedCreatePodSandBox"
    )
    return next((match[1] for match in found if match), "")


def strangers(pod: Obj) -> str:
    """Describe an addition by another owner's admission that may keep the pod from being ready; an
    empty string if there is none."""
    if by := tailor.redirecting(pod):
        return f"it has {by}"
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    ready = {str(status.get("name")): bool(status.get("ready")) for status in statuses}
    late = [
        container["name"]
        for container in tailor.added(pod)
        if not ready.pop(container["name"], True)
    ]
    return (
        f"only container {late[0]} is not ready, and the run did not request it"
        if late and all(ready.values())
        else ""
    )


def verdict_on(
    pods: Sequence[Obj],
    error: EnvironmentBroken,
    claims: Sequence[str],
    because: str,
    events: Callable[[Obj], Sequence[Obj]],
) -> Exception:
    """Return the verdict on pods that were waited for and did not become ready (``error``).

    This is for tests about starting. The verdict is a Nonconformance if the pod in the error has a
    node, the suite's own image and program are right, and the pod is evidence about its network
    (:func:`nothing_ran`): only the cluster's network can then be the cause. Otherwise the verdict
    is EnvironmentBroken, or the error itself if nothing more is known. ``events`` returns the
    events of a pod, oldest first.
    """
    for pod in pods:
        if fault := own_fault(pod):
            return EnvironmentBroken(
                f"{_head(pod, claims)} {fault} ({_waited(error)}), which says nothing about the network: {error}\n"
                f"  do       kubectl describe pod and kubectl logs --previous of {_name(pod)}"
            )
    late = [pod for pod in pods if str(pod["metadata"]["name"]) in str(error)]
    if not late or not late[0]["spec"].get("nodeName"):
        return error
    observed = f"{_head(late[0], claims)} {pod_state(late[0])} ({_waited(error)})"
    node = late[0]["spec"]["nodeName"]
    if by := strangers(late[0]):
        return EnvironmentBroken(
            f"{observed}: {by}, which says nothing about its network: {error}\n  do  {tailor.EXEMPT}"
        )
    if why := nothing_ran(late[0], events(late[0])):
        return EnvironmentBroken(
            f"{observed}: {why}, which says nothing about its network: {error}\n"
            f"  do       read the events of {_name(late[0])} and the kubelet's log on node {node}"
        )
    return Nonconformance(
        f"{observed}: {error}\n  because  {because}\n"
        f"  do       read the events of {_name(late[0])}, and calico-node's log on node {node}"
    )


def _waited(error: EnvironmentBroken) -> str:
    """Return how long the pods were waited for, read from the error's text: ``waited 360 s``."""
    found = re.search(r"after ([0-9.]+ s)", str(error))
    return f"waited {found[1]}" if found else "waited for it"


def _name(pod: Obj) -> str:
    return f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}"


def _head(pod: Obj, claims: Sequence[str]) -> str:
    where = f"{_name(pod)} (node {pod['spec'].get('nodeName') or 'none yet'})"
    return f"{', '.join(claims) or 'no claim'}  {where}  expected Ready, observed"
