# SPDX-License-Identifier: Apache-2.0
"""A backend counts as unready by its kubelet's probes, and not by its readiness gates."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.pods.pod_changes import unready
from tests.unit.conformance.builders import a_pod, a_workload

SINCE = 1_796_012_255.0
"""2026-11-30T04:17:35Z."""
BEFORE, AFTER = "2026-11-30T04:15:00Z", "2026-11-30T04:17:39Z"


@pytest.mark.parametrize(
    ("status", "at", "text"),
    [
        ("True", BEFORE, ""),
        ("True", AFTER, f"was not ready until {AFTER}, "),
        ("False", BEFORE, f"is not ready since {BEFORE}, "),
        ("False", AFTER, f"is not ready since {AFTER}, "),
    ],
)
def test_a_pod_that_its_kubelet_found_unready_meanwhile_is_named(
    status: str, at: str, text: str
) -> None:
    found = asked({"type": "ContainersReady", "status": status, "lastTransitionTime": at})
    assert found == (
        f"pod ns/server (linux, node linux-1) {text}according to the kubelet's probes"
        if text
        else ""
    )


def test_a_pod_that_became_ready_before_the_test_took_it_is_not_named_whatever_clocks_say() -> None:
    condition = {"type": "ContainersReady", "status": "True", "lastTransitionTime": AFTER}
    assert asked(condition, ready_since=AFTER) == ""


def test_a_pod_that_its_own_gate_keeps_unready_or_that_says_nothing_is_not_named() -> None:
    gate = {"type": "Ready", "status": "False", "lastTransitionTime": AFTER}
    assert asked(gate) == ""
    assert asked() == ""


def asked(*conditions: dict[str, str], ready_since: str = BEFORE) -> str:
    there = a_pod("server", namespace="ns", status={"conditions": list(conditions)})
    kube: Any = SimpleNamespace(objects=lambda *_: [there])
    return unready(kube, [a_workload("server", ready_since=ready_since)], SINCE)
