"""Waiting for objects on a watch: every state seen is kept, so that a wait that fails says what it saw.

An image that cannot be pulled, a pod that cannot be scheduled: the event's own text is in the message.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from conformance.errors import EnvironmentBroken
from conformance.kube.client import Kube, Obj
from conformance.kube.node_conditions import closed, may_take
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.model.change import ObjectRef

PULL_TROUBLE = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
)
HOPELESS_PULL = (
    "not found", "no match for platform", "manifest unknown", "pull access denied", "unauthorized", "forbidden",
    "invalid reference", "couldn't parse image", "operating system of the container does not match", "0xc0370101",
)  # fmt: skip
"""Texts of pull errors that waiting does not cure; others (a registry that is slow or busy) may pass."""
LOOK_AT_NODE = 10.0
"""s.  Between two looks at whether the node of a pod lives that is not ready: its death is known after 40 s at the
soonest, and until its pods are evicted, five minutes later, nothing else says that waiting is vain."""
LOOK_AGAIN = 3.0
"""s.  Between two looks at who refuses pods that do not come, or finds no node for them."""
REFUSED = (("ReplicaFailure", "True"), ("Progressing", "False"))
"""Type and status of the conditions of ReplicaSets and Deployments that say that something may not be made."""
EVENT_SHOWN = 300
"""Characters of an event in a first line; CNI plugins' errors are long, and end with what repeats."""
HOPELESS_START = (
    "does not match the operating system",
    "0xc0370101",
    "executable file not found",
    "no such file",
)
"""Texts of start errors that waiting does not cure; others (HNS busy, a mount that is late) may pass."""


@dataclass
class StatesSeen:
    """States that a wait saw, each with its seconds since the wait began; consecutive equal ones once."""

    states: list[tuple[float, str]] = field(default_factory=list)

    def add(self, seconds: float, state: str) -> None:
        if not self.states or self.states[-1][1] != state:
            self.states.append((seconds, state))

    def __str__(self) -> str:
        return "; ".join(f"+{seconds:.1f} s {state}" for seconds, state in self.states) or "nothing"


class Waits:
    """Waits on one cluster."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube

    def states(
        self,
        api_version: str,
        kind: str,
        namespace: str | None,
        *,
        labels: str = "",
        fields: str = "",
        within: float,
        quiet: Callable[[dict[str, Obj]], float] | None = None,
    ) -> Iterator[dict[str, Obj]]:
        """The selected objects by name, now and after every change of one of them, for at most ``within`` seconds.

        A watch that a gateway dropped silently looks like one on which nothing happens.  Therefore each lasts for
        ``watch`` seconds at most, or for ``quiet`` of what is there now, and then the objects are listed again; so they
        are when it is cut or too old.  Raises ApiUnreachable and ApiRefused as reads do.
        """
        end = time.monotonic() + within
        while True:
            items, since = self.kube.objects_at(
                api_version, kind, namespace, labels=labels, fields=fields
            )
            now = {item["metadata"]["name"]: item for item in items}
            yield now
            left = end - time.monotonic()
            if left <= 0:
                return
            lasting = min(left, self.kube.timings.watch, *([quiet(now)] if quiet else []))
            try:
                for event in self.kube.watch(
                    api_version,
                    kind,
                    namespace,
                    since,
                    labels=labels,
                    fields=fields,
                    seconds=lasting,
                ):
                    obj = event["object"]
                    if event["type"] == "BOOKMARK":
                        continue
                    if event["type"] == "DELETED":
                        now.pop(obj["metadata"]["name"], None)
                    else:
                        now[obj["metadata"]["name"]] = obj
                    yield now
                    if time.monotonic() > end:
                        return
            except ApiRefused as refusal:
                if (
                    refusal.code != 410 and not refusal.passing
                ):  # objects can be listed all the same
                    raise
            except ApiUnreachable:
                pass  # the list above repeats within its own deadline and raises when the server stays away

    def gone(self, target: ObjectRef, *, within: float) -> float:
        """Seconds until an object was gone.  Raises EnvironmentBroken with its finalizers when it stays."""
        begin = time.monotonic()
        last: Obj | None = None
        for now in self.states(
            target.api_version,
            target.kind,
            target.namespace,
            fields=f"metadata.name={target.name}",
            within=within,
        ):
            found = now.get(target.name)
            if found is None or (
                last is not None and found["metadata"].get("uid") != last["metadata"].get("uid")
            ):
                return time.monotonic() - begin
            last = found
        meta = (last or {}).get("metadata") or {}
        conditions = [
            condition.get("message", "")
            for condition in ((last or {}).get("status") or {}).get("conditions") or []
        ]
        raise EnvironmentBroken(
            f"{target.label} is still there {within:.0f} s after its deletion; finalizers "
            f"{meta.get('finalizers') or 'none'}; {' '.join(filter(None, conditions)) or 'no condition says why'}"
        )

    def pods_ready(
        self,
        namespace: str,
        labels: str,
        count: int,
        *,
        within: float,
        progress: Callable[[str], None] | None = None,
        lost: Callable[[], Exception | None] | None = None,
        enough: Callable[[Obj], bool] | None = None,
        what: str = "ready",
    ) -> list[Obj]:
        """The ``count`` pods that carry ``labels`` and do not terminate, once all are Ready, or ``enough`` (``what``).

        ``progress`` is told each new state.  ``lost`` is asked now and then: what to raise since their node is no more.
        Raises EnvironmentBroken when they are not ready in time, and before that
        when an image cannot be pulled, a container cannot start, a pod is refused (admission, quota, a webhook) or the
        scheduler finds no node for it, each in the words of who said so.
        """
        begin = time.monotonic()
        seen = StatesSeen()
        enough = enough or is_ready
        refused = ""
        unscheduled = begin
        looked = begin

        def quiet(now: dict[str, Obj]) -> float:
            soon = len(now) < count or any(map(unschedulable, now.values()))
            return LOOK_AGAIN if soon else LOOK_AT_NODE if lost else within

        for now in self.states("v1", "Pod", namespace, labels=labels, within=within, quiet=quiet):
            pods = [item for item in now.values() if not _replaced(item)]
            state = (
                ", ".join(f"{item['metadata']['name']} {pod_state(item)}" for item in pods)
                or refused
                or "no pod"
            )
            if progress and (not seen.states or seen.states[-1][1] != state):
                progress(state)
            seen.add(time.monotonic() - begin, state)
            if len(pods) == count and all(map(enough, pods)):
                return pods
            if lost and time.monotonic() - looked > LOOK_AT_NODE:
                looked = time.monotonic()
                if error := lost():
                    raise error
            for pod in pods:
                problem = hopeless(pod)
                if problem:
                    raise EnvironmentBroken(self._pod_message(pod, problem))
            before = refused
            refused = self._refusal(namespace, labels) if len(pods) < count else ""
            if (
                before and refused
            ):  # said twice: what a webhook that is being replaced says once may pass
                raise EnvironmentBroken(
                    f"{len(pods)} of {count} pods with {labels} in {namespace} were created after "
                    f"{time.monotonic() - begin:.0f} s: {refused}"
                )
            stuck = [item for item in pods if unschedulable(item)]
            unscheduled = unscheduled if stuck else time.monotonic()
            if stuck and time.monotonic() - unscheduled > self.kube.timings.unschedulable:
                raise EnvironmentBroken(self._pod_message(stuck[0], pod_state(stuck[0])))
        bad = [item for item in pods or now.values() if not enough(item)]
        detail = (
            self._pod_message(bad[0], pod_state(bad[0]))
            if bad
            else f"{len(pods) or 'no'} pod with {labels} in {namespace}"
        )
        raise EnvironmentBroken(
            f"{sum(map(enough, pods))} of {count} pods {what} after {within:.0f} s: {detail}\n  seen    {seen}"
        )

    def _refusal(self, namespace: str, labels: str) -> str:
        """Why pods with these labels are not made; empty: nothing says so.

        As their ReplicaSet tells it, or the Deployment that may not even make that.
        """
        try:
            sets = self.kube.objects("apps/v1", "ReplicaSet", namespace, labels=labels)
            makers = sets or self.kube.objects("apps/v1", "Deployment", namespace, labels=labels)
        except ApiRefused:
            return ""  # who may not read them learns it from the wait's end
        for maker in makers:
            if (maker.get("spec") or {}).get("replicas") == 0:
                return f"somebody scaled {maker['metadata'].get('name')} to no pods"
            for condition in (maker.get("status") or {}).get("conditions") or []:
                if (condition.get("type"), condition.get("status")) in REFUSED:
                    return f"{condition.get('reason')}: {condition.get('message')}"
        return ""

    def _pod_message(self, pod: Obj, problem: str) -> str:
        """What is wrong with a pod, and its newest warning, in one line; below: events, a crashed container's log.

        Of a pod without a node also why those take none that it is made for, and which image is still being pulled.
        """
        meta = pod["metadata"]
        events = self.events(pod)
        node = pod["spec"].get("nodeName") or f"no node yet{self._closed(pod)}"
        problem += f": {pull}" if (pull := pulling(pod, events)) else ""
        texts = [
            f"{event.get('reason')}: {event.get('message')}"
            for event in events
            if event.get("type") == "Warning"
        ]
        newest = f"; {texts[-1].partition(chr(10))[0][:EVENT_SHOWN]}" if texts else ""
        lines = [f"pod {meta['namespace']}/{meta['name']} ({node}): {problem}{newest}"]
        lines += [f"  event   {text}" for text in dict.fromkeys(texts[-3:])]
        for container_status in (pod.get("status") or {}).get("containerStatuses") or []:
            if container_status.get("restartCount"):
                try:
                    log = self.kube.logs(
                        meta["namespace"],
                        meta["name"],
                        container_status["name"],
                        tail=5,
                        previous=True,
                    )
                except (ApiRefused, ApiUnreachable) as error:
                    log = f"(not readable: {error})"
                lines += [f"  log     {line}" for line in log.strip().splitlines()[-5:]]
        return "\n".join(lines)

    def said_of(self, pod: Obj) -> str:
        """How far a pod has come, and what its cluster says of that."""
        return self._pod_message(pod, pod_state(pod))

    def _closed(self, pod: Obj) -> str:
        """``, node windows-1 is cordoned`` for each node that the pod is made for and that takes none like it."""
        try:
            nodes = [
                node for node in self.kube.objects("v1", "Node") if may_take(node, pod["spec"])
            ]
        except ApiRefused:  # who may not read them has the scheduler's words
            return ""
        told = (
            (node["metadata"]["name"], closed(node, pod["spec"].get("tolerations") or ()))
            for node in nodes
        )
        return "".join(f", node {name} is {why}" for name, why in told if why)

    def events(self, obj: Obj) -> list[Obj]:
        """Events about an object, oldest first; none when they may not be read."""
        meta = obj["metadata"]
        try:
            found = self.kube.objects(
                "v1",
                "Event",
                meta.get("namespace") or "default",
                fields=f"involvedObject.name={meta['name']}",
            )
        except ApiRefused:
            return []
        uid = meta.get("uid")
        mine = [
            item
            for item in found
            if (item.get("involvedObject") or {}).get("uid") in (None, "", uid)
        ]
        return sorted(mine, key=when)


def when(event: Obj) -> str:
    """When an event last happened, as text that sorts."""
    return str(
        event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )


def pulling(pod: Obj, events: Sequence[Obj]) -> str:
    """What is still being pulled for a pod, by its events, oldest first; empty: nothing, or all its containers run."""
    status = pod.get("status") or {}
    containers = [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]
    pulls = [event for event in events if event.get("reason") in ("Pulling", "Pulled")]
    if all("running" in (one.get("state") or {}) for one in containers) and containers:
        return ""
    if not pulls or pulls[-1]["reason"] == "Pulled":
        return ""
    return (
        f"its image is still being pulled ({pulls[-1].get('message') or 'which one is not said'})"
    )


def _replaced(pod: Obj) -> bool:
    """Whether a pod is on its way out, or has ended for good (evicted by its kubelet) and another takes its place."""
    over = (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded") and pod[
        "metadata"
    ].get("ownerReferences")
    return bool(pod["metadata"].get("deletionTimestamp") or over)


def is_ready(pod: Obj) -> bool:
    """Whether a pod's Ready condition is true and it is not on its way out."""
    return _has(pod, type="Ready", status="True") and not pod["metadata"].get("deletionTimestamp")


def containers_ready(pod: Obj) -> bool:
    """Whether all its containers are ready and it is not on its way out, whatever its readiness gates say."""
    return _has(pod, type="ContainersReady", status="True") and not pod["metadata"].get(
        "deletionTimestamp"
    )


def unschedulable(pod: Obj) -> bool:
    """Whether the scheduler has found no node for a pod."""
    return _has(pod, type="PodScheduled", reason="Unschedulable")


def _has(pod: Obj, **wanted: str) -> bool:
    """Whether a pod has a condition with these fields."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(wanted.items() <= condition.items() for condition in conditions)


def restarts(pod: Obj) -> int:
    """Container restarts of a pod, all containers together."""
    return sum(
        int(container_status.get("restartCount") or 0)
        for container_status in (pod.get("status") or {}).get("containerStatuses") or []
    )


def pod_state(pod: Obj) -> str:
    """One phrase: ``Ready``, ``ContainerCreating``, ``ImagePullBackOff``, ``Unschedulable: 0/6 nodes ...``."""
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if is_ready(pod):
        return "Ready"
    if status.get("phase") == "Failed" and status.get("reason"):
        return f"Failed, {status['reason']}: {status.get('message')}"
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"{condition.get('reason')}: {condition.get('message')}"
    several = [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]
    for container_status in sorted(
        several, key=lambda one: "waiting" not in (one.get("state") or {})
    ):
        state = container_status.get("state") or {}
        if "waiting" in state:
            waiting = state["waiting"]
            return f"{container_status['name']} {waiting.get('reason')}" + (
                f": {waiting['message']}" if waiting.get("message") else ""
            )
        if "terminated" in state:
            ended = state["terminated"]
            how = f"{container_status['name']} ended with {ended.get('exitCode')} ({ended.get('reason')})"
            return f"{how} {ended.get('message') or ''}".strip()
    waited = [
        f"{one['name']} runs since {since}, and its readiness probe has not passed"
        for one in status.get("containerStatuses") or []
        if not one.get("ready")
        and (since := ((one.get("state") or {}).get("running") or {}).get("startedAt"))
    ]
    return (
        f"{status.get('phase') or 'Pending'}, not ready{': ' if waited else ''}{'; '.join(waited)}"
    )


def hopeless(pod: Obj) -> str:
    """Why waiting for this pod is useless; empty while there is hope."""
    status = pod.get("status") or {}
    for container_status in [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]:
        waiting = (container_status.get("state") or {}).get("waiting") or {}
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
    return ""
