# SPDX-License-Identifier: Apache-2.0
"""The result of a new pod's first action decides the message; that the action's container ends
is no fault of the pod."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.kube.pod_state import pod_state
from conformance.pods.new_pod import NewPod, role_of
from conformance.pods.pod_changes import changed
from conformance.settings import Settings, load_timings
from tests.unit.conformance.builders import a_pod, a_workload

NAME = role_of("windows")
WORKLOAD = a_workload(NAME, "windows", container="server", uid="u", role=NAME, node="w1")
RUNNING: dict[str, Any] = {"running": {}}


def ended(code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}}


def pod(
    first: dict[str, Any], server: dict[str, Any] = RUNNING, policy: str = "Never"
) -> dict[str, Any]:
    containers = [{"name": "first-action", "state": first}, {"name": "server", "state": server}]
    spec, status = {"restartPolicy": policy}, {"containerStatuses": containers}
    return a_pod(NAME, "w1", uid="u", ready=False, spec=spec, status=status)


def new_pod(now: dict[str, Any] | None) -> NewPod:
    kube = SimpleNamespace(find=lambda *_: now)
    waits = SimpleNamespace(said_of=lambda pod: f"pod {pod['metadata']['name']}: {pod_state(pod)}")
    pods: Any = SimpleNamespace(
        namespace="ns", kube=kube, settings=Settings(timings=load_timings()), changes=SimpleNamespace(waits=waits),
        watch=SimpleNamespace(closed=lambda name: f", and node {name} is cordoned"), pod_of=lambda *_, **__: now,
    )  # fmt: skip
    return NewPod(pods, node=SimpleNamespace(os="windows", name="w1"), name=NAME)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [0, 3])
def test_a_first_action_that_has_ended_is_no_change_of_the_pod(code: int) -> None:
    assert changed(WORKLOAD, pod(ended(code))) == ""


def test_a_server_that_has_ended_is_one_and_so_is_any_container_that_is_to_run_on() -> None:
    assert "its container server is not running: Error" in changed(
        WORKLOAD, pod(ended(0), ended(1))
    )
    assert "its container first-action is not running" in changed(
        WORKLOAD, pod(ended(0), policy="Always")
    )
    other = replace(WORKLOAD, container="first-action")
    assert "its container first-action is not running" in changed(other, pod(ended(0)))


def test_its_first_action_is_to_start_then_acting_then_done() -> None:
    waiting: dict[str, Any] = {"waiting": {"reason": "ContainerCreating"}}
    assert [new_pod(pod(first)).stage() for first in (waiting, {}, RUNNING, ended(3))] == [
        "to start", "to start", "acting", "done",
    ]  # fmt: skip
    with pytest.raises(EnvironmentBroken, match="was deleted, and node w1 is cordoned"):
        new_pod(None).stage()
    with pytest.raises(EnvironmentBroken, match="or its server has ended, and node w1 is cordoned"):
        new_pod(None).ready()


def test_what_holds_it_up_is_told_while_one_of_its_containers_has_never_run() -> None:
    waiting: dict[str, Any] = {"waiting": {"reason": "ImagePullBackOff"}}
    assert new_pod(pod(ended(0), waiting)).held_up() == f"pod {NAME}: server ImagePullBackOff"
    assert new_pod(pod(waiting)).held_up() == f"pod {NAME}: first-action ImagePullBackOff"
    assert [new_pod(now).held_up() for now in (pod(ended(0)), pod(RUNNING), None)] == ["", "", ""]


def test_only_an_answer_and_its_absence_are_told_apart() -> None:
    assert new_pod(pod(ended(0))).connected_first()
    assert not new_pod(pod(ended(3))).connected_first()
    with pytest.raises(
        EnvironmentBroken,
        match="had no network, or was refused: each try failed at once, for 120 s",
    ):
        new_pod(pod(ended(4))).connected_first()
    with pytest.raises(
        EnvironmentBroken, match=r"ended with exit code 1 .* says nothing about the network"
    ):
        new_pod(pod(ended(1))).connected_first()
