# SPDX-License-Identifier: Apache-2.0
"""The status that a kubelet writes for a pod: phase, conditions, addresses, containers."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hybridlab.api.contract import Obj
from hybridlab.controllers.container_state import ContainerState

OWNED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
"""Conditions that the kubelet writes. PodScheduled, DisruptionTarget and others stay unchanged."""


@dataclass
class PodState:
    """Everything from which a pod's status is made."""

    start_time: str
    host_address: str
    init: list[ContainerState]
    containers: list[ContainerState]
    addresses: tuple[str, ...] = ()
    sandbox: bool = False
    """The pod has its network."""
    rejected: tuple[str, str] | None = None
    """Reason and message of a pod that the node did not admit."""
    annotations: dict[str, str] = field(default_factory=dict)


def _sidecar(container: Obj) -> bool:
    return container.get("restartPolicy") == "Always"


def initialized(state: PodState) -> bool:
    """Return whether all init containers are finished: they ended well, or (side-cars) started."""
    return all(
        (each.running_since is not None and bool(each.started))
        if _sidecar(each.spec)
        else each.succeeded
        for each in state.init
    )


def phase(state: PodState, policy: str) -> str:
    """Return Pending, Running, Succeeded or Failed, by the containers and the pod's restart
    policy.
    """
    if state.rejected or (policy == "Never" and any(map(_failed_init, state.init))):
        return "Failed"
    if _is_pending(state):
        return "Pending"
    if any(each.running_since or each.waiting for each in state.containers) or policy == "Always":
        return "Running"
    if all(each.succeeded for each in state.containers):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def _is_pending(state: PodState) -> bool:
    if any(each.waiting and not each.last for each in state.containers):
        return True
    begun = any(each.running_since or each.ended or each.last for each in state.containers)
    return not begun and not initialized(state)


def _failed_init(each: ContainerState) -> bool:
    return each.ended is not None and each.ended.exit_code != 0 and not _sidecar(each.spec)


def status(pod: Obj, state: PodState, now: str) -> Obj:
    """Return the whole status as a merge patch, in which removed fields are None."""
    current = phase(state, pod["spec"].get("restartPolicy", "Always"))
    found: Obj = {
        "phase": current,
        "startTime": state.start_time,
        "reason": state.rejected[0] if state.rejected else None,
        "message": state.rejected[1] if state.rejected else None,
    }
    if not state.rejected:
        found["hostIP"] = state.host_address
        found["hostIPs"] = [{"ip": state.host_address}]
        if state.addresses:
            found["podIP"] = state.addresses[0]
            found["podIPs"] = [{"ip": address} for address in state.addresses]
        found["containerStatuses"] = [
            each.to_json() for each in sorted(state.containers, key=lambda each: each.name)
        ]
        if state.init:
            found["initContainerStatuses"] = [each.to_json() for each in state.init]
        found["conditions"] = _conditions(pod, state, current, now)
    return found


def ready(state: PodState) -> bool:
    """Return whether all containers are ready, including side-cars."""
    side_cars = [each for each in state.init if _sidecar(each.spec)]
    return all(each.ready for each in (*state.containers, *side_cars))


def _conditions(pod: Obj, state: PodState, current: str, now: str) -> list[Obj]:
    before = {entry["type"]: entry for entry in pod.get("status", {}).get("conditions") or ()}
    through = initialized(state) or current in {"Running", "Succeeded"}
    containers_ready = ready(state) and current == "Running" and through
    reason = _why_unready(state, current)
    gated = containers_ready and not _gates_open(pod, before)
    wanted = (
        ("PodReadyToStartContainers", state.sandbox, "", ""),
        ("Initialized", through, *_why_uninitialized(state, current, through)),
        ("Ready", containers_ready and not gated, *(_GATED if gated else reason)),
        ("ContainersReady", containers_ready, *reason),
    )
    result = [_condition(before.get(entry[0]), now, *entry) for entry in wanted]
    return result + [entry for kind, entry in before.items() if kind not in OWNED]


_GATED = ("ReadinessGatesNotReady", "corresponding condition is not true")


def _why_unready(state: PodState, current: str) -> tuple[str, str]:
    """Return reason and message of the condition ContainersReady; both empty while it is true."""
    if current in _OVER:
        return _OVER[current], ""
    unready = [each.name for each in state.containers if not each.ready]
    return ("ContainersNotReady", _named("unready status", unready)) if unready else ("", "")


def _why_uninitialized(state: PodState, current: str, through: bool) -> tuple[str, str]:
    """Return reason and message of the condition Initialized."""
    if through:
        return "PodCompleted" if current == "Succeeded" else "", ""
    incomplete = [each.name for each in state.init if not each.succeeded]
    return "ContainersNotInitialized", _named("incomplete status", incomplete)


_OVER = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
"""The reasons of the conditions of a pod that has ended, by its phase."""


def _gates_open(pod: Obj, conditions: dict[str, Obj]) -> bool:
    gates = pod["spec"].get("readinessGates") or ()
    return all(conditions.get(gate["conditionType"], {}).get("status") == "True" for gate in gates)


def _named(what: str, names: Sequence[str]) -> str:
    return f"containers with {what}: [{' '.join(names)}]"


def _condition(  # noqa: PLR0917
    known: Obj | None, now: str, kind: str, /, holds: bool, reason: str, message: str
) -> Obj:
    value = "True" if holds else "False"
    found: Obj = {
        "type": kind,
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": known["lastTransitionTime"]
        if known and known["status"] == value
        else now,
    }
    if reason:
        found["reason"] = reason
    if message:
        found["message"] = message
    return found
