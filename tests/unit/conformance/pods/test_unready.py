# SPDX-License-Identifier: Apache-2.0
"""A server that is to be unready is created with a readiness gate, and awaited until its
containers are ready."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.kube.waits import Waits
from conformance.pods.deploy import Pods, Wish
from conformance.settings import Settings, load_timings
from tests.unit.conformance.builders import a_node, a_pod, some_facts


def pod(containers: str) -> dict[str, Any]:
    conditions = [
        {"type": "Ready", "status": "False"},
        {"type": "ContainersReady", "status": containers},
    ]
    status = {
        "phase": "Pending",
        "podIP": "192.168.0.5",
        "hostIP": "10.0.0.11",
        "conditions": conditions,
    }
    return a_pod(namespace="ns", status=status)


def deployed(
    states: list[dict[str, Any]], patience: float = 5.0
) -> tuple[Any, list[dict[str, Any]]]:
    node, applied = a_node("linux-1"), []
    kube: Any = SimpleNamespace(
        objects=lambda *_, **__: [], timings=load_timings().run, watch=lambda *_, **__: iter(()),
        objects_at=lambda *_, **__: ([states.pop(0) if len(states) > 1 else states[0]], "1"),
        find=lambda *_: {"metadata": {"name": "linux-1"}},
    )  # fmt: skip
    changes: Any = SimpleNamespace(
        run=SimpleNamespace(prefix="", namespace="ns"), dry_run=False, namespace=lambda *_, **__: None,
        apply=lambda obj, *_, **__: applied.append(obj),
        waits=Waits(kube),
    )  # fmt: skip
    plain = load_timings()
    patient = replace(plain, linux=replace(plain.linux, image_pull=patience, pod_ready=0.0))
    pods = Pods(kube, changes, some_facts(node), Settings(timings=patient))
    wish = Wish(role="linux-server", node=node, name="linux-server-unready", never_ready=True)
    return (lambda: pods.deploy_unready(wish)), applied


def test_it_has_a_gate_and_is_there_once_its_containers_are_ready() -> None:
    deploy, applied = deployed([pod("False"), pod("True")])
    assert deploy().address == "192.168.0.5"
    template = applied[-1]["spec"]["template"]
    assert template["spec"]["readinessGates"] == [{"conditionType": "conformance/never"}]
    assert template["metadata"]["labels"]["app"] == "linux-server"


def test_containers_that_are_not_ready_in_time_are_no_verdict() -> None:
    deploy, _ = deployed([pod("False")], patience=0.1)
    with pytest.raises(
        EnvironmentBroken,
        match=r"^0 of 1 pods have ready containers after 0 s: pod ns/p \(linux-1\): Pending, not ready",
    ):
        deploy()
