# SPDX-License-Identifier: Apache-2.0
"""Phase and conditions of a pod, from the states of its containers and its restart policy."""

from __future__ import annotations

from typing import Any

import pytest

from hybridlab.controllers.container_state import ContainerState, Ended
from hybridlab.controllers.pod_status import PodState, status

BAD = Ended(exit_code=1, reason="Error", started="s", finished="f")
GOOD = Ended(exit_code=0, reason="Completed", started="s", finished="f")
STATES: dict[str, dict[str, Any]] = {
    "waits": {},
    "waits again": {"last": BAD},
    "runs": {"waiting": None, "running_since": "t"},
    "ready": {"waiting": None, "running_since": "t", "ready": True, "started": True},
    "ended": {"waiting": None, "ended": GOOD},
    "failed": {"waiting": None, "ended": BAD},
}
INCOMPLETE = "ContainersNotInitialized: containers with incomplete status: [first]"
UNREADY = "ContainersNotReady: containers with unready status: [main]"


def container(name: str, state: str) -> ContainerState:
    return ContainerState({"name": name, "image": "i"}, **STATES[state])


def status_of(first: str, main: str, policy: str, gates: tuple[str, ...] = ()) -> dict[str, str]:
    """The phase, and of each condition its reason and message, or its status where it has none."""
    init = [container("first", first)] if first else []
    state = PodState("s", "10.0.0.1", init, [container("main", main)])
    spec = {
        "restartPolicy": policy,
        "readinessGates": [{"conditionType": gate} for gate in gates],
    }
    found = status({"spec": spec}, state, "now")
    return {"phase": found["phase"]} | {
        entry["type"]: ": ".join(entry[key] for key in ("reason", "message") if key in entry)
        or entry["status"]
        for entry in found["conditions"]
    }


@pytest.mark.parametrize(
    ("first", "main", "policy", "expected"),
    [
        ("", "waits", "Always", ("Pending", "True", UNREADY)),
        ("", "waits again", "Always", ("Running", "True", UNREADY)),
        ("", "runs", "Always", ("Running", "True", UNREADY)),
        ("", "ready", "Always", ("Running", "True", "True")),
        ("", "ended", "Always", ("Running", "True", UNREADY)),
        ("", "ended", "OnFailure", ("Succeeded", "PodCompleted", "PodCompleted")),
        ("", "ended", "Never", ("Succeeded", "PodCompleted", "PodCompleted")),
        ("", "failed", "OnFailure", ("Running", "True", UNREADY)),
        ("", "failed", "Never", ("Failed", "True", "PodFailed")),
        ("runs", "waits", "Always", ("Pending", INCOMPLETE, UNREADY)),
        ("failed", "waits", "Always", ("Pending", INCOMPLETE, UNREADY)),
        ("failed", "waits", "Never", ("Failed", INCOMPLETE, "PodFailed")),
        ("ended", "ready", "Always", ("Running", "True", "True")),
    ],
)
def test_phase_and_conditions_follow_from_the_containers(
    first: str, main: str, policy: str, expected: tuple[str, str, str]
) -> None:
    phase, initialized, ready = expected
    assert status_of(first, main, policy) == {
        "phase": phase,
        "PodReadyToStartContainers": "False",
        "Initialized": initialized,
        "Ready": ready,
        "ContainersReady": ready,
    }


def test_a_gate_that_is_not_open_keeps_the_pod_unready_but_not_its_containers() -> None:
    found = status_of("", "ready", "Always", gates=("example.com/gate",))
    assert found["ContainersReady"] == "True"
    assert found["Ready"] == ("ReadinessGatesNotReady: corresponding condition is not true")
