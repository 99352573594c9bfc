# SPDX-License-Identifier: Apache-2.0
"""Pause pods are created at once, also on a cordoned node; a plugin's refusal is distinguished
from other reasons."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.pods.pause_pods import PausePods
from conformance.pods.starting import plugin_words
from conformance.settings import Images
from tests.unit.conformance.builders import Obj, a_windows_node

FRAME = 'Failed to create pod sandbox: failed to setup network for sandbox "ab": '
REFUSED = FRAME + 'plugin type="calico" failed (add): timeout acquiring mutex'


def event(message: str, reason: str = "FailedCreatePodSandBox") -> Obj:
    return {"reason": reason, "message": message, "type": "Warning"}


class Pods:
    """A deployer whose pods start, or not."""

    def __init__(self, *, start: bool = True, events: tuple[Obj, ...] = ()) -> None:
        self.namespace = "ns"
        self.made: dict[str, Obj] = {}
        self.status = {"phase": "Running", "podIP": "10.0.0.9"} if start else {"phase": "Pending"}
        waits = SimpleNamespace(
            events=lambda pod: list(events),
            said_of=lambda pod: "0/3 nodes are available: Too many pods",
        )
        self.changes = SimpleNamespace(waits=waits, delete_and_wait=self._delete)
        timings = SimpleNamespace(image_pull=0.0, pod_ready=0.0, poll_every=0.0, delete=1.0)
        of: Any = SimpleNamespace(of=lambda os: timings, windows=timings)
        self.settings = SimpleNamespace(
            timings=of, images=Images(), pod_limits=None, tolerations=()
        )
        self.kube = SimpleNamespace(objects=lambda *_, **__: list(self.made.values()))

    def prepare(self, namespace: str) -> None:
        assert namespace == "ns"

    def apply(self, made: Obj, why: str, namespace: str) -> None:
        self.made[made["metadata"]["name"]] = made | {"status": self.status}

    def _delete(self, target: Any, why: str, *, within: float) -> None:
        del self.made[target.name]


NODE = a_windows_node("win", 17763)


def test_they_come_to_a_cordoned_node_with_an_image_of_every_build() -> None:
    pods: Any = Pods()
    words = PausePods(pods, "churn").come(NODE, 3)[1]
    assert (words, sorted(pods.made)) == ("", ["churn-0", "churn-1", "churn-2"])
    spec = pods.made["churn-0"]["spec"]
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert cordon | {"operator": "Exists"} in spec["tolerations"]
    assert spec["containers"][0]["image"] == "registry.k8s.io/pause:3.10.2"


def test_names_are_never_used_twice_and_all_go() -> None:
    pods: Any = Pods()
    pause = PausePods(pods)
    pause.come(NODE, 2)
    pause.remove(["pause-0"])
    assert pause.come(NODE, 1) == (["pause-2"], "")
    pause.remove()
    assert pods.made == {}


def test_the_plugins_own_words_are_told() -> None:
    pods: Any = Pods(start=False, events=(event(REFUSED),))
    words = PausePods(pods).come(NODE, 2)[1]
    assert words == "timeout acquiring mutex; 2 of 2 pods were refused"


def test_a_pod_that_the_kubelet_or_the_scheduler_refuses_is_no_refusal_of_the_plugin() -> None:
    pods: Any = Pods(start=False)
    with pytest.raises(EnvironmentBroken, match=r"2 of 2 pods have not started .*Too many pods"):
        PausePods(pods).come(NODE, 2)


def test_a_pod_that_somebody_deletes_breaks_the_wait() -> None:
    pods: Any = Pods()
    pause = PausePods(pods)
    pause.start(NODE, 1)
    pods.made.clear()
    with pytest.raises(EnvironmentBroken, match="ns/pause-0 was deleted"):
        pause.wait(NODE, ["pause-0"])


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([], ""),
        ([event(REFUSED)], "timeout acquiring mutex"),
        ([event(REFUSED), event("Too many pods", "FailedScheduling")], "timeout acquiring mutex"),
        ([event(REFUSED), event(FRAME + 'plugin type="calico" failed (add): full')], "full"),
        ([event('networkPlugin cni failed to set up pod "p" network: full')], "full"),
        ([event("Failed to create pod sandbox: out of memory")], ""),
    ],
)
def test_the_newest_refusal_counts(events: list[Obj], words: str) -> None:
    assert plugin_words(events) == words
