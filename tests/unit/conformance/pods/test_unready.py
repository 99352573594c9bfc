"""A server that is to be unready is asked for with a gate, and waited for until its containers are ready."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.pods.deploy import Pods, Wish
from conformance.settings import Settings, load_timings


def pod(containers: str) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": containers}]
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"nodeName": "linux-1", "containers": []},
        "status": {"podIP": "192.168.0.5", "hostIP": "10.0.0.11", "conditions": conditions},
    }


def deployed(make: Any, *states: dict[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
    node, applied = make.node("linux-1"), []
    changes: Any = SimpleNamespace(
        run=SimpleNamespace(namespace="ns"), dry_run=False, namespace=lambda *_, **__: None,
        apply=lambda obj, *_, **__: applied.append(obj),
        waits=SimpleNamespace(states=lambda *_, **__: iter([{"p": state} for state in states])),
    )  # fmt: skip
    kube: Any = SimpleNamespace(objects=lambda *_: [])
    pods = Pods(kube, changes, make.facts(node), Settings(timings=load_timings()))
    wish = Wish(role="linux-server", node=node, name="linux-server-unready", never_ready=True)
    return (lambda: pods.deploy_unready(wish)), applied


def test_it_has_a_gate_and_is_there_once_its_containers_are_ready(make: Any) -> None:
    deploy, applied = deployed(make, pod("False"), pod("True"))
    assert deploy().address == "192.168.0.5"
    template = applied[-1]["spec"]["template"]
    assert template["spec"]["readinessGates"] == [{"conditionType": "conformance/never"}]
    assert template["metadata"]["labels"]["app"] == "linux-server"


def test_containers_that_are_not_ready_in_time_are_no_verdict(make: Any) -> None:
    deploy, _ = deployed(make, pod("False"))
    with pytest.raises(EnvironmentBroken, match="ns/linux-server-unready: its containers are not ready after"):
        deploy()
