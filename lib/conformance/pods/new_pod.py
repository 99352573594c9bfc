# SPDX-License-Identifier: Apache-2.0
"""A pod for tests of a new pod's first seconds: its first action is to connect to a server."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Literal

from conformance.errors import EnvironmentBroken
from conformance.kube import manifest
from conformance.kube.client import Obj
from conformance.kube.pod_state import hopeless
from conformance.model.change import ObjectRef
from conformance.model.endpoint import OS, Target, Workload
from conformance.model.facts import NodeFacts
from conformance.pods import tailor
from conformance.pods.deploy import Pods
from conformance.pods.groups import Group
from conformance.pods.placement import Placement, tolerations
from conformance.pods.roles import MANIFESTS, ROLES

_FIRST = "first-action"
_SERVER = "server"
_CONNECTED = 0
_NO_ANSWER = 3
_NO_NETWORK = 4
"""The exit code of the first action if the container has no network
(manifests/new-pod/windows.yaml)."""


def role_of(os: OS) -> str:
    """Return the role of new pods for an operating system. It is their label ``app``; the name of
    each pod ends with its node's number."""
    return f"{os}-new-pod"


Stage = Literal["to start", "acting", "done"]
"""The stage of the first action: its container does not run yet, runs, or has ended."""


class NewPods:
    """Creates new pods of a worker at once, one on each covered node of an OS; :meth:`remove`
    deletes them."""

    def __init__(self, pods: Pods, placement: Placement) -> None:
        self._pods = pods
        self._placement = placement
        self._there: tuple[NewPod, ...] = ()

    def create(self, os: OS, target: Target) -> tuple[NewPod, ...]:
        """Create the pods; return as soon as all have addresses. Each pod first connects to
        ``target``.

        Raise EnvironmentBroken if a pod cannot start, MissingCapability if there is no node for
        a pod.
        """
        nodes = self._placement.covered(os)
        self._there = tuple(
            NewPod(self._pods, node, f"{role_of(os)}-{self._placement.number(node.name)}")
            for node in nodes
        )
        with ThreadPoolExecutor(max_workers=len(self._there)) as threads:
            for done in [threads.submit(new_pod.create, target) for new_pod in self._there]:
                done.result()
        return self._there

    @property
    def pods(self) -> Group:
        """Return the pods of the newest generation."""
        return Group(new_pod.pod for new_pod in self._there)

    def remove(self) -> None:
        for new_pod in self._there:
            new_pod.remove()


class NewPod:
    """A new pod; :meth:`remove` deletes it."""

    def __init__(self, pods: Pods, node: NodeFacts, name: str) -> None:
        self._pods = pods
        self._node = node
        self._name = name
        self._made = False
        self.pod: Workload
        """The pod, once it has an address."""

    def create(self, target: Target) -> None:
        """Create the pod; return as soon as it has an address. Its first action is to connect to
        ``target``.

        Raise EnvironmentBroken if the pod cannot start.
        """
        pods = self._pods
        pods.prepare(pods.namespace)
        node = self._node
        patience = pods.settings.timings.of(self._node.os)
        (made,) = manifest.load(MANIFESTS / "new-pod" / f"{node.os}.yaml")
        made["metadata"]["name"] = self._name
        made["metadata"]["labels"] |= {tailor.SEAT: self._name}
        tailor.fit(made["spec"], node, pods.settings.images, pods.settings.pod_limits)
        made["spec"]["tolerations"] = tolerations(pods.settings.tolerations)
        made["spec"]["affinity"] = tailor.on_nodes(node.name)
        template = {
            "TARGET_HOST": target.host,
            "TARGET_PORT": target.port,
            "GIVE_UP_MS": round(1000 * patience.tcp_give_up),
            "NETWORK_MS": round(1000 * patience.warm_up),
        }
        first = next(
            container for container in made["spec"]["containers"] if container["name"] == _FIRST
        )
        first["env"] = [{"name": name, "value": str(value)} for name, value in template.items()]
        self._made = True
        pods.apply(made, "a pod whose first seconds are watched", pods.namespace)
        pod = self._once(
            "have an address", lambda now: bool((now.get("status") or {}).get("podIP"))
        )
        like = ROLES[f"{node.os}-server"]
        self.pod = pods.workload(
            pod, replace(like, name=role_of(node.os), agent=_SERVER, main=_SERVER)
        )

    def stage(self) -> Stage:
        """Return the stage of the pod's first action. Raise EnvironmentBroken if the pod is gone or
        cannot start."""
        pods = self._pods
        pod = pods.kube.find("v1", "Pod", self._name, pods.namespace)
        problem = (
            hopeless(pod)
            if pod is not None
            else f"it was deleted{pods.watch.closed(self._node.name)}"
        )
        if pod is None or problem:
            raise EnvironmentBroken(f"pod {pods.namespace}/{self._name}: {problem}")
        if _end(pod) is not None:
            return "done"
        return "acting" if _state(pod).get("running") is not None else "to start"

    def ready(self) -> bool:
        """Return whether the kubelet found the pod's server ready. Raise EnvironmentBroken if the
        pod is gone or has ended."""
        pods = self._pods
        pod = pods.kube.find("v1", "Pod", self._name, pods.namespace)
        own = _status(pod, _SERVER) if pod is not None else {}
        if pod is None or (own.get("state") or {}).get("terminated") is not None:
            raise EnvironmentBroken(
                f"pod {pods.namespace}/{self._name}: the pod was deleted, or its server has ended"
                f"{pods.watch.closed(self._node.name)}"
            )
        return bool(own.get("ready"))

    def held_up(self) -> str:
        """Return the cluster's explanation if a container of the pod has not run yet; an empty
        string if all have run."""
        pods = self._pods
        pod = pods.kube.find("v1", "Pod", self._name, pods.namespace)
        late = pod and [
            container
            for container in (_FIRST, _SERVER)
            if not {"running", "terminated"} & _state(pod, container).keys()
        ]
        return pods.changes.waits.said_of(pod) if pod and late else ""

    def connected_first(self) -> bool:
        """Return whether the server answered the pod's first action.  Raise EnvironmentBroken if
        the action failed for another reason than a missing answer."""
        pod = self._once("have ended their first action", lambda now: _end(now) is not None)
        end = _end(pod) or {}
        what = f"pod {self._pods.namespace}/{self._name}: its first action"
        if end.get("exitCode") == _NO_NETWORK:
            seconds = self._pods.settings.timings.of(self._node.os).warm_up
            raise EnvironmentBroken(
                f"{what} had no network, or was refused: each try failed at once, for {seconds:.0f} s"
            )
        if end.get("exitCode") not in (_CONNECTED, _NO_ANSWER):
            raise EnvironmentBroken(
                f"{what} ended with exit code {end.get('exitCode')} ({end.get('reason') or 'no reason given'}), which says "
                "nothing about the network"
            )
        return bool(end["exitCode"] == _CONNECTED)

    def _once(self, what: str, enough: Callable[[Obj], bool]) -> Obj:
        return self._pods.pod_of(
            self._name, self._node, self._pods.namespace, enough=enough, what=what
        )

    def remove(self) -> None:
        """Delete the pod, if it was made, and wait until its address is free again."""
        if not self._made:
            return
        self._made = False
        target = ObjectRef(
            api_version="v1", kind="Pod", name=self._name, namespace=self._pods.namespace
        )
        self._pods.changes.delete_and_wait(
            target,
            "its test is over",
            within=self._pods.settings.timings.of(self._node.os).delete,
        )


def _end(pod: Obj) -> Obj | None:
    """Return how the container of the first action ended; None if it has not ended."""
    found: Obj | None = _state(pod).get("terminated")
    return found


def _state(pod: Obj, container: str = _FIRST) -> Obj:
    return _status(pod, container).get("state") or {}


def _status(pod: Obj, container: str) -> Obj:
    """Return the API's status of a container; empty if there is none yet."""
    statuses: list[Obj] = (pod.get("status") or {}).get("containerStatuses") or []
    return next((status for status in statuses if status["name"] == container), {})
