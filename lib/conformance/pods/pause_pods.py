# SPDX-License-Identifier: Apache-2.0
"""Pause pods: many pods on a node that do nothing, but each of which has a network."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from conformance.errors import EnvironmentBroken
from conformance.kube import manifest
from conformance.kube.client import Obj
from conformance.kube.fields import pod_address, value_at
from conformance.kube.node_conditions import CORDON
from conformance.model.change import ObjectRef
from conformance.model.facts import NodeFacts
from conformance.pods import tailor
from conformance.pods.deploy import Pods
from conformance.pods.placement import tolerations
from conformance.pods.roles import MANIFESTS
from conformance.pods.starting import plugin_words
from conformance.timing import until

T = TypeVar("T")
MEMORY = 32
"""The memory that each pod requests, in MiB (manifests/pause)."""
WHY = "a pause pod: it holds a network endpoint for the duration of a test"


class PausePods:
    """The pause pods of a test; :meth:`remove` removes them."""

    def __init__(self, pods: Pods, name: str = "pause") -> None:
        """Set up the pods. ``name``: the beginning of their names."""
        self._pods = pods
        self._name = name
        self._there: list[str] = []
        self._number = 0

    def start(self, node: NodeFacts, count: int) -> list[str]:
        """Create ``count`` pods on a node at once, even on a cordoned node; return their names."""
        self._pods.prepare(self._pods.namespace)
        names = [f"{self._name}-{number}" for number in range(self._number, self._number + count)]
        self._number += count
        self._there += names
        _each(lambda name: self._create(name, node), names)
        return names

    def come(
        self,
        node: NodeFacts,
        count: int,
        *,
        look_after: Callable[[], object] = lambda: None,
    ) -> tuple[list[str], str]:
        """Start pods at once, and wait until they have started or their time is over. Return their
        names, and a text about refused pods.

        The text has the network plugin's message about one of the pods that it refused until the
        end, and the number of such pods. The text is empty if all pods have started.

        ``look_after`` is called at each check, and may end the wait by an exception. Raise
        EnvironmentBroken for a pod that has not started for another reason.
        """
        names = self.start(node, count)
        late, seconds = self.wait(node, names, look_after=look_after)
        if silent := [pod for pod in late if not self.refusal(pod)]:
            raise EnvironmentBroken(
                f"{len(late)} of {count} pods have not started after {seconds:.0f} s: "
                f"{self._pods.changes.waits.said_of(silent[0])}"
            )
        words = f"{self.refusal(late[0])}; {len(late)} of {count} pods were refused" if late else ""
        return names, words

    def wait(
        self,
        node: NodeFacts,
        names: Sequence[str],
        *,
        enough: Callable[[Sequence[Obj]], object] = lambda late: not late,
        look_after: Callable[[], object] = lambda: None,
    ) -> tuple[Sequence[Obj], float]:
        """Wait until ``enough`` is true of the pods that have not started, or until the time for a
        new pod is over.

        Return the pods that have not started, and the seconds that passed.
        """
        patience = self._pods.settings.timings.of(node.os)

        def look() -> Sequence[Obj]:
            look_after()
            return [
                pod
                for pod in self._now(names)
                if value_at(pod, "status", "phase") != "Running" or not pod_address(pod["status"])
            ]

        settled = until(
            look,
            lambda late: bool(enough(late)),
            within=patience.image_pull + patience.pod_ready,
            every=patience.poll_every,
            description=f"pause pods on node {node.name} have started",
        )
        return settled.last, settled.seconds

    def refusal(self, pod: Obj) -> str:
        """Return the network plugin's message in its newest refusal of a pod; an empty string if
        there is none."""
        return plugin_words(self._pods.changes.waits.events(pod))

    def address(self, name: str) -> str:
        """Return the address of a pod; an empty string if there is none."""
        return next((pod_address(pod["status"]) for pod in self._now([name])), "")

    def remove(self, names: Sequence[str] | None = None) -> None:
        """Delete the named pods (default: all pods), and wait until their addresses are free."""
        gone = list(self._there if names is None else names)
        within = self._pods.settings.timings.windows.delete
        own = partial(ObjectRef, api_version="v1", kind="Pod", namespace=self._pods.namespace)
        _each(
            lambda name: self._pods.changes.delete_and_wait(own(name=name), WHY, within=within),
            gone,
        )
        self._there = [name for name in self._there if name not in gone]

    def _create(self, name: str, node: NodeFacts) -> None:
        pods = self._pods
        (made,) = manifest.load(MANIFESTS / "pause" / "windows.yaml")
        made["spec"] |= {"os": {"name": node.os}, "nodeSelector": {"kubernetes.io/os": node.os}}
        made["metadata"]["name"] = name
        tailor.fit(made["spec"], node, pods.settings.images, pods.settings.pod_limits)
        made["spec"]["tolerations"] = [
            *tolerations(pods.settings.tolerations),
            {**CORDON, "operator": "Exists"},
        ]
        made["spec"]["affinity"] = tailor.on_nodes(node.name)
        pods.apply(made, WHY, pods.namespace)

    def _now(self, names: Sequence[str]) -> list[Obj]:
        there = {
            pod["metadata"]["name"]: pod
            for pod in self._pods.kube.objects(
                "v1", "Pod", self._pods.namespace, labels="app=pause"
            )
        }
        if gone := [name for name in names if name not in there]:
            raise EnvironmentBroken(
                f"pod {self._pods.namespace}/{gone[0]} was deleted while the test waited"
            )
        return [there[name] for name in names]


def _each(act: Callable[[T], object], items: Iterable[T]) -> None:
    with ThreadPoolExecutor(max_workers=64) as threads:
        list(threads.map(act, items))
