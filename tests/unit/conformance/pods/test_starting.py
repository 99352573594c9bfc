# SPDX-License-Identifier: Apache-2.0
"""If a container of the suite's own crashes, this says nothing about the cluster; the first line
names it and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, Nonconformance
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.pods.placement import Placement
from conformance.pods.starting import own_fault, verdict_on
from conformance.pods.tailor import CONTAINERS, SEAT
from conformance.pods.webserver import NAME, WebServer
from conformance.settings import Settings, load_timings
from tests.unit.conformance.builders import a_pod, a_windows_node, some_facts

ENDED: dict[str, Any] = {"terminated": {"exitCode": 1, "reason": "Error"}}
NOT_READY = EnvironmentBroken("0 of 1 pods ready after 360 s: pod ns/web-1 (w1): not ready")
TOO_NEW = {"message": "hcs::System::Start win: ... (0xc0370106)", "reason": "StartError"}
UPDATE = (
    "image servercore:ltsc2022 is newer than its node, which cannot start it (0xc0370106): install "
    "the node's updates, or name a tag of the node's own revision with --images, such as "
    "servercore:10.0.17763.1397"
)
NEW = {"image": "servercore:ltsc2022"}
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
    ({**NEW, "state": {"waiting": TOO_NEW}}, UPDATE),
    ({**NEW, "state": {"terminated": TOO_NEW}}, UPDATE),
    ({**NEW, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
      "lastState": {"terminated": TOO_NEW}}, UPDATE),
    ({**NEW, "state": {"running": {}}, "restartCount": 1,
      "lastState": {"terminated": {**TOO_NEW, "exitCode": 128}}},
     "container main ended with exit code 128 (StartError), restarted 1 time"),
]  # fmt: skip


def said(*events: str) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    """Events about every pod, ``REASON`` or ``REASON: message``."""
    split = [event.partition(": ") for event in events]
    return lambda _: [{"reason": reason, "message": message} for reason, _, message in split]


def pod(container: dict[str, Any], node: str = "w1") -> dict[str, Any]:
    containers = [{"name": "other", "state": {"running": {}}}, {"name": "main", **container}]
    return a_pod("web-1", node, namespace="ns", status={"containerStatuses": containers})


@pytest.mark.parametrize(("container", "words"), FAULTS)
def test_a_container_that_fails_by_itself_breaks_the_environment(
    container: dict[str, Any], words: str
) -> None:
    assert own_fault(pod(container)) == words
    verdict = verdict_on([pod(container)], NOT_READY, ["DEMO-1"], "x", said("Pulled"))
    assert isinstance(verdict, EnvironmentBroken)
    first = str(verdict).splitlines()[0]
    assert first.startswith(
        f"DEMO-1  ns/web-1 (node w1)  expected Ready, observed {words} (waited 360 s)"
    )
    assert "after 360 s" in first


CREATING = {"waiting": {"reason": "ContainerCreating"}}
SANDBOX = 'FailedCreatePodSandBox: failed to setup network for sandbox "1": plugin type="calico" failed (add): no address'
BUSY = "FailedCreatePodSandBox: hcs::CreateComputeSystem 1: The wait operation timed out."


@pytest.mark.parametrize(
    ("state", "events", "why"),
    [
        ({"running": {}}, [], ""),
        (CREATING, ["Pulling", "Pulled"], ""),
        (CREATING, [SANDBOX], ""),
        (CREATING, ["Pulling"], "its image is still being pulled"),
        (CREATING, ["Pulled", "Pulling"], "its image is still being pulled"),
        ({"running": {}}, ["Pulled", "Pulling", "Pulled"], ""),
        (
            {"running": {}},
            ["Pulled", "Killing: Container main failed liveness probe, will be restarted"],
            "its probe killed it: Container main failed liveness probe",
        ),
        (
            {"running": {}},
            ["Pulled", "Unhealthy: Readiness probe failed: dial tcp: i/o timeout"],
            "",
        ),
        (CREATING, [], "its kubelet has not reported the image"),
        ({}, ["Scheduled"], "its kubelet has not reported the image"),
        (CREATING, [BUSY], "its sandbox could not be created: hcs::CreateComputeSystem"),
    ],
)
def test_a_pod_that_is_not_ready_is_the_networks_only_where_something_ran_or_could_have(
    state: dict[str, Any], events: list[str], why: str
) -> None:
    late = {**pod({}), "status": {"containerStatuses": [{"name": "main", "state": state}]}}
    verdict = verdict_on([late], NOT_READY, ["XHOST-1"], "x", said(*events))
    assert type(verdict) is (EnvironmentBroken if why else Nonconformance)
    first = str(verdict).splitlines()[0]
    assert first.startswith("XHOST-1  ns/web-1 (node w1)  expected Ready, observed")
    assert why in first
    assert "after 360 s" in first


def test_a_pod_without_node_or_none_at_all_adds_nothing_to_the_error() -> None:
    assert verdict_on([pod({"state": {}}, node="")], NOT_READY, [], "x", said()) is NOT_READY
    assert verdict_on([], NOT_READY, [], "x", said()) is NOT_READY


@pytest.mark.parametrize(
    ("container", "kind"), [(FAULTS[0][0], EnvironmentBroken), ({"state": {}}, Nonconformance)]
)
def test_a_web_server_that_crashes_is_told_from_one_without_network(
    container: dict[str, Any], kind: type[Exception]
) -> None:
    def late(*_: Any, **__: Any) -> None:
        raise NOT_READY

    nodes = some_facts(a_windows_node("w1", 20348))
    waits = SimpleNamespace(pods_ready=late, events=said("Pulled"))
    changes = SimpleNamespace(apply=lambda obj, *_, **__: obj, waits=waits)
    pods: Any = SimpleNamespace(
        namespace="ns", prepare=lambda *_: None, apply=lambda *_: None, changes=changes,
            settings=Settings(timings=load_timings()),
        kube=SimpleNamespace(objects=lambda *_, labels: [pod(container)] if labels == f"{SEAT}={NAME}-1" else []),
    )  # fmt: skip
    kept: list[Decision] = []
    with pytest.raises(
        kind, match=r"DEMO-9  ns/web-1 .node w1.  expected Ready, observed"
    ) as raised:
        WebServer(pods, Placement(nodes), ["DEMO-9"], kept.extend).start(because="x")
    assert not raised.value.__cause__
    assert raised.value.__suppress_context__
    assert [Path(entry.path).name for entry in raised.traceback.filter(raised)] == [
        "test_starting.py"
    ]
    assert [(seen.target, seen.verdict) for seen in kept] == [
        ("w1", ClaimVerdict.VIOLATED if kind is Nonconformance else ClaimVerdict.INCONCLUSIVE)
    ]


def test_a_container_that_is_still_pulled_says_nothing_of_the_network_though_another_runs() -> None:
    late = pod({"state": CREATING})
    verdict = verdict_on([late], NOT_READY, ["DEMO-1"], "x", said("Pulled", "Pulling"))
    assert isinstance(verdict, EnvironmentBroken)
    assert "its image is still being pulled" in str(verdict).partition("\n")[0]


@pytest.mark.parametrize(
    ("name", "main_ready", "shipper_ready", "why"),
    [
        (
            "shipper",
            True,
            False,
            "only container shipper is not ready, and the run did not request it",
        ),
        ("shipper", False, False, ""),
        ("shipper", False, True, ""),
        (
            "istio-proxy",
            False,
            True,
            "it has container istio-proxy (example.com/x:1), which the run did not request",
        ),
    ],
)
def test_a_pod_that_somebody_else_s_container_keeps_from_being_ready_is_no_word_about_the_network(
    name: str, main_ready: bool, shipper_ready: bool, why: str
) -> None:
    several = [("main", main_ready), (name, shipper_ready)]
    late = pod({})
    late["metadata"]["annotations"] = {CONTAINERS: "main"}
    late["spec"]["containers"] = [{"name": each, "image": "example.com/x:1"} for each, _ in several]
    late["status"] = {
        "containerStatuses": [
            {"name": n, "ready": ready, "state": {"running": {}}} for n, ready in several
        ]
    }
    verdict = verdict_on([late], NOT_READY, ["DEMO-1"], "x", said("Pulled"))
    assert type(verdict) is (EnvironmentBroken if why else Nonconformance)
    assert why in str(verdict).partition("\n")[0]
