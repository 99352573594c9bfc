# SPDX-License-Identifier: Apache-2.0
"""Waits for objects by a watch: every observed state is kept, so that a failed wait can report all
of them.

If an image cannot be pulled or a pod cannot be scheduled, the message has the event's own text.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from conformance.errors import EnvironmentBroken
from conformance.kube.client import PAUSE, Kube, Obj
from conformance.kube.fields import list_at, value_at
from conformance.kube.node_conditions import closed, may_take
from conformance.kube.pod_state import (
    hopeless,
    is_ready,
    is_replaced,
    named_state,
    pod_state,
    pulling,
    unschedulable,
    without_sysctls,
)
from conformance.kube.refused import ApiRefused, ApiUnreachable, NoApiServer
from conformance.model.change import ObjectRef
from conformance.timing import SYSTEM_CLOCK

LOOK_AT_NODE = 10.0
"""The interval, in seconds, between two checks whether the node of an unready pod is alive.
Kubernetes reports a dead node after 40 s at the earliest, and evicts its pods only five minutes
later."""
LOOK_AGAIN = 3.0
"""The interval, in seconds, between two checks why missing pods are refused, or why no node takes
them."""
REFUSED = (("ReplicaFailure", "True"), ("Progressing", "False"))
"""Type and status of the conditions by which ReplicaSets and Deployments report refused objects."""
EVENT_SHOWN = 300
"""The number of characters of an event in a message's first line. Errors of CNI plugins are long,
and end with repeated text."""


@dataclass
class ObservedStates:
    """The states that a wait observed, each with its seconds since the wait began; equal states in
    a row are stored once."""

    states: list[tuple[float, str]] = field(default_factory=list)

    def add(self, seconds: float, state: str) -> bool:
        """Add a state; return whether it differs from the previous one."""
        new = not self.states or self.states[-1][1] != state
        if new:
            self.states.append((seconds, state))
        return new

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
        """Yield the selected objects by name, now and after every change, for at most ``within``
        seconds.

        A watch that a gateway dropped silently looks like a watch without events. Therefore each
        watch lasts at most ``watch`` seconds, or the time that ``quiet`` returns for the present
        objects. Then the objects are listed again, as after a watch that was cut or is too old.
        Raise ApiUnreachable and ApiRefused as reads do.
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
            asked = time.monotonic()
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
            except (NoApiServer, ApiUnreachable):
                pass  # the list request above retries, and then reports the error
            except ApiRefused as refusal:
                if (
                    refusal.code != 410 and not refusal.passing
                ):  # after any other refusal, the objects can be listed again
                    raise
            # the watch ended at once; the pause prevents a flood of requests
            if time.monotonic() - asked < PAUSE:
                SYSTEM_CLOCK.sleep(PAUSE)

    def gone(self, target: ObjectRef, *, within: float) -> float:
        """Wait until an object is gone and return the seconds that this took. Raise
        EnvironmentBroken with its finalizers if it stays."""
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
        messages = [
            condition["message"]
            for condition in list_at(last, "status", "conditions")
            if condition.get("message")
        ]
        raise EnvironmentBroken(
            f"{target.label} still exists {within:.0f} s after its deletion; finalizers: "
            f"{value_at(last, 'metadata', 'finalizers') or 'none'}; "
            f"{' '.join(messages) or 'no condition shows why'}"
        )

    def pods_ready(
        self,
        namespace: str,
        labels: str,
        count: int,
        *,
        within: float,
        progress: Callable[[str], object] = str,
        lost: Callable[[], Exception | None] | None = None,
        enough: Callable[[Obj], bool] | None = None,
        what: str = "ready",
    ) -> list[Obj]:
        """Return ``count`` pods with ``labels`` that do not terminate, once all of them are Ready,
        or once ``enough`` returns True for all of them.

        ``progress`` receives each new state. ``what``: the description of ``enough``. ``lost`` is
        called now and then and returns an error if the pods' node is lost. Raise EnvironmentBroken
        if the pods are not ready in time. Raise it earlier, with the original message, if an image
        cannot be pulled, a container cannot start, a pod is refused (admission, quota, a webhook)
        or the scheduler finds no node.
        """
        begin = time.monotonic()
        observed = ObservedStates()
        enough = enough or is_ready
        early = _EarlyEnd(self, namespace, labels, count, lost)
        for now in self.states(
            "v1", "Pod", namespace, labels=labels, within=within, quiet=early.look_after
        ):
            pods = [item for item in now.values() if not is_replaced(item)]
            state = ", ".join(map(named_state, pods)) or early.refused or "no pod"
            if observed.add(time.monotonic() - begin, state):
                progress(state)
            if len(pods) == count and all(map(partial(_is_taken, enough), pods)):
                return pods
            early.check(pods)
        bad = [item for item in pods or now.values() if not enough(item)]
        detail = (
            self.said_of(bad[0])
            if bad
            else f"number of pods with {labels} in {namespace}: {len(pods)}"
        )
        raise EnvironmentBroken(
            f"{sum(map(enough, pods))} of {count} pods {what} after {within:.0f} s: {detail}\n  observed  {observed}"
        )

    def refusal(self, namespace: str, labels: str) -> str:
        """Return the reason why pods with these labels are not created; an empty string if none is
        reported.

        The reason comes from the pods' ReplicaSet, or from the Deployment if it may not even create
        the ReplicaSet. For a DaemonSet, which has no conditions, the reason comes from its events.
        """
        try:
            for kind in ("ReplicaSet", "Deployment", "DaemonSet"):
                if makers := self.kube.objects("apps/v1", kind, namespace, labels=labels):
                    text = self._refusals(makers) if kind != "DaemonSet" else self._failed(makers)
                    return next(text, "")
        except ApiRefused:
            pass  # without the right to read them, the wait's final error is still raised
        return ""

    @staticmethod
    def _refusals(makers: Sequence[Obj]) -> Iterator[str]:
        for maker in makers:
            if value_at(maker, "spec", "replicas") == 0:
                yield f"{maker['metadata'].get('name')} was scaled to 0 pods"
            for condition in list_at(maker, "status", "conditions"):
                if (condition.get("type"), condition.get("status")) in REFUSED:
                    yield f"{condition.get('reason')}: {condition.get('message')}"

    def _failed(self, makers: Sequence[Obj]) -> Iterator[str]:
        """Yield the errors of DaemonSets that could not create pods, each from an event that
        occurred more than once."""
        for event in (event for maker in makers for event in reversed(self.events(maker))):
            if event.get("reason") == "FailedCreate" and int(event.get("count") or 1) > 1:
                yield f"FailedCreate: {event.get('message')}"

    def _last_words(self, meta: Obj, container: str) -> str:
        """Return the end of the log of a container before its restart, or why it cannot be read."""
        try:
            return self.kube.logs(meta["namespace"], meta["name"], container, tail=5, previous=True)
        except (ApiRefused, ApiUnreachable) as error:
            return f"(could not be read: {error})"

    def said_of(self, pod: Obj, problem: str = "") -> str:
        """Return one line with a pod's problem and its newest warning, and further lines with
        events and a crashed container's log.

        ``problem``: by default the pod's state. For a pod without a node, the text includes the
        reason why suitable nodes refuse it; it also names images that are still being pulled.
        """
        meta = pod["metadata"]
        events = self.events(pod)
        node = pod["spec"].get("nodeName") or f"no node yet{self._closed(pod)}"
        pull = pulling(pod, events)
        texts = [
            f"{event.get('reason')}: {event.get('message')}"
            for event in events
            if event.get("type") == "Warning"
        ]
        newest = f"; {texts[-1].partition(chr(10))[0][:EVENT_SHOWN]}" if texts else ""
        lines = [
            f"pod {meta['namespace']}/{meta['name']} ({node}): {problem or pod_state(pod)}"
            f"{f': {pull}' if pull else ''}{newest}"
        ]
        lines += [f"  event   {text}" for text in dict.fromkeys(texts[-3:])]
        for container_status in list_at(pod, "status", "containerStatuses"):
            if container_status.get("restartCount"):
                log = self._last_words(meta, container_status["name"])
                lines += [f"  log     {line}" for line in log.strip().splitlines()[-5:]]
        return "\n".join(lines)

    def _closed(self, pod: Obj) -> str:
        """Return ``, node windows-1 is cordoned`` for each node that the pod's spec allows, but
        that takes no new pods."""
        try:
            nodes = [
                node for node in self.kube.objects("v1", "Node") if may_take(node, pod["spec"])
            ]
        except ApiRefused:  # a user who may not read nodes still gets the scheduler's message
            return ""
        text = (
            (node["metadata"]["name"], closed(node, pod["spec"].get("tolerations") or ()))
            for node in nodes
        )
        return "".join(f", node {name} is {why}" for name, why in text if why)

    def events(self, obj: Obj) -> list[Obj]:
        """Return the events about an object, oldest first; an empty list if reading is refused."""
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
        uids = (None, "", meta.get("uid"))
        return sorted(
            (event for event in found if value_at(event, "involvedObject", "uid") in uids), key=when
        )


def when(event: Obj) -> str:
    """Return when an event last happened, as a text that can be sorted."""
    return str(
        event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )


class _EarlyEnd:
    """Reasons to end a wait for pods early: their node, images, admission, the scheduler."""

    def __init__(
        self,
        waits: Waits,
        namespace: str,
        labels: str,
        count: int,
        lost: Callable[[], Exception | None] | None,
    ) -> None:
        self._waits = waits
        self._namespace = namespace
        self._labels = labels
        self._count = count
        self._lost = lost
        self._begin = time.monotonic()
        self._looked = self._begin
        self._scheduled = self._begin
        self.refused = ""
        """The reason why pods were not made, as of the last check."""

    def look_after(self, now: Mapping[str, Obj]) -> float:
        """Return the seconds without news after which pods are checked again."""
        if len(now) < self._count or any(map(unschedulable, now.values())):
            return LOOK_AGAIN
        return LOOK_AT_NODE if self._lost else float("inf")

    def check(self, pods: Sequence[Obj]) -> None:
        """Raise EnvironmentBroken, or the error that ``lost`` returns, if waiting for these pods
        is pointless.
        """
        if self._lost and time.monotonic() - self._looked > LOOK_AT_NODE:
            self._looked = time.monotonic()
            if error := self._lost():
                raise error
        for pod in pods:
            if problem := hopeless(pod):
                raise EnvironmentBroken(self._waits.said_of(pod, problem))
        self._check_refusal(len(pods))
        stuck = list(filter(unschedulable, pods))
        if not stuck:
            self._scheduled = time.monotonic()
        elif time.monotonic() - self._scheduled > self._waits.kube.timings.unschedulable:
            raise EnvironmentBroken(self._waits.said_of(stuck[0]))

    def _check_refusal(self, made: int) -> None:
        """Raise if pods are refused twice: a single refusal of a webhook that is being replaced may
        pass."""
        before = self.refused
        lack = made < self._count
        self.refused = self._waits.refusal(self._namespace, self._labels) if lack else ""
        if before and self.refused:
            raise EnvironmentBroken(
                f"{made} of {self._count} pods with {self._labels} in {self._namespace} "
                f"were created after {time.monotonic() - self._begin:.0f} s: {self.refused}"
            )


def _is_taken(enough: Callable[[Obj], bool], pod: Obj) -> bool:
    return enough(pod) and not without_sysctls(pod)
