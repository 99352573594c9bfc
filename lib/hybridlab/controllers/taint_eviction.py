# SPDX-License-Identifier: Apache-2.0
"""Taints with effect NoExecute: pods that do not tolerate such a taint leave its node, at once or
when their time is over."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from hybridlab.api.contract import Client, Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.endpoints import delete
from hybridlab.controllers.events import Recorder
from hybridlab.controllers.fit import tolerates
from hybridlab.controllers.owned import is_active
from hybridlab.controllers.times import seconds_of
from hybridlab.controllers.work import Controller, Work

COMPONENT = "taint-eviction-controller"


class TaintEviction(Controller):
    """The taint eviction controller. A taint's age counts from its ``timeAdded``; without this
    field, from the time at which this controller first read the taint.
    """

    def __init__(self, client: Client, caches: Caches, recorder: Recorder) -> None:
        self._client = client
        self._recorder = recorder
        self._nodes = caches.of("nodes")
        self._pods = caches.of("pods")
        self._seen: dict[tuple[str, str, str], float] = {}
        """Maps (node, key, value) of a taint to the Unix time at which it began."""
        self.work = Work("taint eviction", self._sync)
        self._nodes.subscribe(self._on_node)
        self._pods.subscribe(self._on_pod)

    def _on_node(self, node: Obj | None, before: Obj | None) -> None:
        name = (node or before or {})["metadata"]["name"]
        taints = {_identity(name, taint): taint for taint in no_execute(node)}
        new = taints.keys() - self._seen.keys()
        for gone in [known for known in self._seen if known[0] == name and known not in taints]:
            del self._seen[gone]
        for identity in new:
            added = taints[identity].get("timeAdded")
            self._seen[identity] = seconds_of(added) if added else time.time()
        for pod in self._pods if new else ():
            if pod["spec"].get("nodeName") == name:
                self.note(pod)

    def _on_pod(self, pod: Obj | None, before: Obj | None) -> None:
        if (
            pod
            and (before is None or before["spec"].get("nodeName") != pod["spec"].get("nodeName"))
            and any(no_execute(self._nodes.get("", pod["spec"].get("nodeName") or "")))
        ):
            self.note(pod)

    async def _sync(self, key: tuple[str, str]) -> None:
        pod = self._pods.get(*key)
        if pod is None or not is_active(pod):
            return
        name = pod["spec"].get("nodeName") or ""
        stays = [
            self._seen.get(_identity(name, taint), 0.0) + seconds
            for taint in no_execute(self._nodes.get("", name))
            if (seconds := tolerated_for(pod["spec"].get("tolerations") or (), taint)) is not None
        ]
        if not stays:
            return
        remaining = min(stays) - time.time()
        if remaining > 0:
            self.work.note_after(remaining, key)
            return
        self._recorder.record(
            pod,
            "TaintManagerEviction",
            f"Marking for deletion Pod {key[0]}/{key[1]}",
            component=COMPONENT,
        )
        await delete(self._client, "pods", *key)


def _identity(node: str, taint: Mapping[str, Any]) -> tuple[str, str, str]:
    return node, taint["key"], taint.get("value") or ""


def no_execute(node: Obj | None) -> list[Mapping[str, Any]]:
    """Return a node's taints with effect NoExecute."""
    taints = (node or {}).get("spec", {}).get("taints") or ()
    return [taint for taint in taints if taint["effect"] == "NoExecute"]


def tolerated_for(
    tolerations: Iterable[Mapping[str, Any]], taint: Mapping[str, Any]
) -> float | None:
    """Return the seconds that a pod may stay under a taint, by the first matching toleration.
    Return 0 if no toleration matches, and None if the pod may stay for ever."""
    first = next((toleration for toleration in tolerations if tolerates([toleration], taint)), None)
    if first is None:
        return 0.0
    seconds = first.get("tolerationSeconds")
    return None if seconds is None else max(0.0, float(seconds))
