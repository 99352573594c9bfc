"""A crashing container of the suite's own is no word about the cluster; the first line names it and how it ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, Nonconformance
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Seen
from conformance.pods.placement import Placement
from conformance.pods.starting import own_fault, verdict_on
from conformance.pods.tailor import SEAT
from conformance.pods.webserver import NAME, WebServer
from conformance.settings import Settings, load_timings

ENDED: dict[str, Any] = {"terminated": {"exitCode": 1, "reason": "Error"}}
NOT_READY = EnvironmentBroken("0 of 1 pods ready after 360 s: pod ns/web-1 (w1): not ready")
FAULTS = [
    ({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ENDED, "restartCount": 3},
     "container main CrashLoopBackOff, ended with exit code 1 (Error), restarted 3 times"),
    ({"state": {"running": {}}, "lastState": ENDED, "restartCount": 1},
     "container main ended with exit code 1 (Error), restarted 1 time"),
    ({"state": ENDED}, "container main ended with exit code 1 (Error)"),
    ({"state": {"waiting": {"reason": "RunContainerError"}}}, "container main RunContainerError"),
    ({"state": {"waiting": {"reason": "CreateContainerError"}}}, "container main CreateContainerError"),
    ({"state": {"waiting": {"reason": "ErrImagePull", "message": "slow"}}}, "container main ErrImagePull"),
    ({"state": {"waiting": {"reason": "InvalidImageName"}}}, "image None cannot be pulled: InvalidImageName: "),
]  # fmt: skip


def pod(container: dict[str, Any], node: str = "w1") -> dict[str, Any]:
    return {
        "metadata": {"name": "web-1", "namespace": "ns"},
        "spec": {"nodeName": node},
        "status": {"containerStatuses": [{"name": "other", "state": {"running": {}}}, {"name": "main", **container}]},
    }


@pytest.mark.parametrize(("container", "words"), FAULTS)
def test_a_container_that_fails_by_itself_breaks_the_environment(container: dict[str, Any], words: str) -> None:
    assert own_fault(pod(container)) == words
    verdict = verdict_on([pod(container)], NOT_READY, ["DEMO-1"], "x")
    assert isinstance(verdict, EnvironmentBroken)
    first = str(verdict).splitlines()[0]
    assert first.startswith(f"DEMO-1  ns/web-1 (node w1)  expected Ready, observed {words} (1 try)")
    assert "after 360 s" in first


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_pod_of_which_nothing_ran_is_the_clusters_and_so_is_one_that_is_never_ready(reason: str) -> None:
    states: list[dict[str, Any]] = [{"waiting": {"reason": reason}}, {"running": {}}]
    for state in states:
        assert isinstance(verdict_on([pod({"state": state})], NOT_READY, [], "x"), Nonconformance)


def test_a_pod_without_node_or_none_at_all_adds_nothing_to_the_error() -> None:
    assert verdict_on([pod({"state": {}}, node="")], NOT_READY, [], "x") is NOT_READY
    assert verdict_on([], NOT_READY, [], "x") is NOT_READY


@pytest.mark.parametrize(("container", "kind"), [(FAULTS[0][0], EnvironmentBroken), ({"state": {}}, Nonconformance)])
def test_a_web_server_that_crashes_is_told_from_one_without_network(
    make: Any, container: dict[str, Any], kind: type[Exception]
) -> None:
    def late(*_: Any, **__: Any) -> None:
        raise NOT_READY

    nodes = make.facts(make.node("w1", "windows", 20348))
    changes = SimpleNamespace(apply=lambda obj, *_, **__: obj, waits=SimpleNamespace(pods_ready=late))
    pods: Any = SimpleNamespace(
        namespace="ns", prepare=lambda *_: None, changes=changes, settings=Settings(timings=load_timings()),
        kube=SimpleNamespace(objects=lambda *_, labels: [pod(container)] if labels == f"{SEAT}={NAME}-1" else []),
    )  # fmt: skip
    kept: list[Seen] = []
    with pytest.raises(kind, match=r"DEMO-9  ns/web-1 .node w1.  expected Ready, observed"):
        WebServer(pods, Placement(nodes), ["DEMO-9"], kept.extend).start(because="x")
    assert [(one.target, one.verdict) for one in kept] == [
        ("w1", ClaimVerdict.VIOLATED if kind is Nonconformance else ClaimVerdict.INCONCLUSIVE)
    ]
