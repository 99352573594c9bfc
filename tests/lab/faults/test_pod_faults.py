# SPDX-License-Identifier: Apache-2.0
"""Faults of kubelets and containers: restarts, pods that the kubelet ignores, pulls that never
end."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.lab.faults.town import SETTLED_WITHIN, Town, pod

pytestmark = pytest.mark.xdist_group("pod-faults")


def events_of(town: Town, name: str) -> list[str]:
    fields = f"involvedObject.kind=Pod,involvedObject.name={name}"
    return town.lab.kubectl(
        "get", "events", "--field-selector", fields, "-o", "jsonpath={.items[*].reason}"
    ).stdout.split()


def state_of(town: Town, name: str) -> Any:
    return json.loads(town.lab.kubectl("get", "pod", name, "-o", "json").stdout).get("status", {})


def eventually_running(town: Town, name: str) -> None:
    town.lab.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")
    town.lab.kubectl("delete", "pod", name)


def test_a_container_is_killed_and_started_again(town: Town) -> None:
    def restarts() -> str:
        path = "jsonpath={.status.containerStatuses[0].restartCount}"
        return town.lab.kubectl("get", "pod", "far", "-o", path).stdout

    before = int(restarts())
    with town.fault("pod-restarts", pod="default/far"):
        deadline = time.monotonic() + SETTLED_WITHIN
        while int(restarts()) == before:
            assert time.monotonic() < deadline, "it was not started again"
    town.eventually("far", reached=True)


def test_a_ready_node_takes_no_note_of_a_pod(town: Town) -> None:
    with town.fault("kubelet-idle", node="linux-3"):
        town.lab.kubectl(
            "apply", "-f", "-", stdin=pod("unnoticed", "linux-3") + pod("noticed", "linux-2")
        )
        town.lab.kubectl("wait", "--for=condition=Ready", "pod/noticed", "--timeout=30s")
        status = state_of(town, "unnoticed")
        assert "startTime" not in status
        assert "containerStatuses" not in status
        assert events_of(town, "unnoticed") == []
        ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        assert town.lab.kubectl("get", "node", "linux-3", "-o", ready).stdout == "True"
    eventually_running(town, "unnoticed")
    town.lab.kubectl("delete", "pod", "noticed")


def test_a_pod_that_nobody_took_note_of_can_be_removed_by_force(town: Town) -> None:
    with town.fault("kubelet-idle", node="linux-3"):
        town.lab.kubectl("apply", "-f", "-", stdin=pod("unnoticed", "linux-3"))
        town.lab.kubectl("delete", "pod", "unnoticed", "--force", "--grace-period=0")
    assert town.lab.kubectl("get", "pod", "unnoticed", check=False).returncode == 1


def test_an_image_is_being_pulled_without_end(town: Town) -> None:
    with town.fault("image-pull-stalls", node="linux-3"):
        town.lab.kubectl("apply", "-f", "-", stdin=pod("pulling", "linux-3", "nginx:1.25", "[]"))
        deadline = time.monotonic() + SETTLED_WITHIN
        while "Pulling" not in events_of(town, "pulling"):
            assert time.monotonic() < deadline
        time.sleep(0.5)
        assert "Pulled" not in events_of(town, "pulling")
        (container,) = state_of(town, "pulling")["containerStatuses"]
        assert container["state"] == {"waiting": {"reason": "ContainerCreating"}}
        assert "startTime" in state_of(town, "pulling")
    eventually_running(town, "pulling")
    assert "Pulled" in events_of(town, "pulling")
