# SPDX-License-Identifier: Apache-2.0
"""The conditions of a Deployment: Available and Progressing, with the reasons that kubectl's
rollout status reads."""

import time

from hybridlab.api.contract import Obj
from hybridlab.controllers.times import seconds_of, timestamp


def deployment_conditions(
    owner: Obj, new: Obj | None, counts: dict[str, int], enough: int, progress: bool
) -> tuple[list[Obj], float | None]:
    """Return the present conditions, and the Unix time at which missing progress becomes a failure
    (None: no progress is missing).

    ``enough``: the number of available replicas below which the Deployment is not Available;
    ``progress``: whether ``counts`` have changed.
    """
    before = {entry["type"]: entry for entry in (owner.get("status") or {}).get("conditions") or ()}
    if counts["availableReplicas"] >= enough:
        available = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        available = (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    result = [_condition(before.get("Available"), "Available", *available)]
    deadline: float | None = None
    if new is None:
        return result, deadline
    name = new["metadata"]["name"]
    replicas = owner["spec"]["replicas"]
    complete = (
        counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == replicas
    )
    known = before.get("Progressing")
    seconds = owner["spec"].get("progressDeadlineSeconds", 600)
    if complete:
        reason = (
            "True",
            "NewReplicaSetAvailable",
            f'ReplicaSet "{name}" has successfully progressed.',
        )
    elif known is None or progress or known["reason"] == "NewReplicaSetAvailable":
        made = "NewReplicaSetCreated" if known is None else "ReplicaSetUpdated"
        text = (
            f'Created new replica set "{name}"'
            if known is None
            else f'ReplicaSet "{name}" is progressing.'
        )
        reason = ("True", made, text)
        deadline = time.time() + seconds
    else:
        deadline = seconds_of(known["lastUpdateTime"]) + seconds
        reason = (known["status"], known["reason"], known["message"])
        if deadline <= time.time():
            reason = (
                "False",
                "ProgressDeadlineExceeded",
                f'ReplicaSet "{name}" has timed out progressing.',
            )
            deadline = None
    result.append(_condition(known, "Progressing", *reason, moved=progress and not complete))
    return result, deadline


def _condition(
    known: Obj | None, kind: str, value: str, reason: str, message: str, *, moved: bool = False
) -> Obj:
    now = timestamp()
    same = known is not None and (known["status"], known["reason"], known["message"]) == (
        value,
        reason,
        message,
    )
    return {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "lastUpdateTime": known["lastUpdateTime"] if known and same and not moved else now,
        "lastTransitionTime": known["lastTransitionTime"]
        if known and known["status"] == value
        else now,
    }
