# SPDX-License-Identifier: Apache-2.0
"""Writes that concern an object without being the object: binding, eviction, scale.

Refusals have the reasons of the real server; an eviction that a PodDisruptionBudget forbids gets a
429 that names the budget.
"""

from typing import Any

from hybridlab.api.contract import ApiError, Obj
from hybridlab.api.errors import (
    bad_request,
    conflict,
    invalid,
    invalid_value,
    too_many_requests,
    unexplained,
)
from hybridlab.api.lifecycle import timestamp
from hybridlab.api.operations import Operations
from hybridlab.api.requests import DeleteOptions, Target, WriteOptions
from hybridlab.api.selectors import object_selector

BUDGETS = "poddisruptionbudgets.policy"
_SUCCESS: Obj = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


class Subresources:
    """Binding, eviction and scale."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def bind(self, namespace: str, name: str, body: Obj, options: WriteOptions) -> Obj:
        """Assign a pod to a node and record that it is scheduled."""
        node = (body.get("target") or {}).get("name", "")
        if not node:
            raise unexplained("target.name: Required value")
        pods = self._operations.catalogue.named("pods")
        pod = self._operations.get(Target(pods, namespace, name))
        meta = pod["metadata"]
        spec = pod["spec"]
        if (body.get("metadata") or {}).get("uid") not in {None, "", meta["uid"]}:
            raise conflict(
                "pods/binding", "", name, "Precondition failed: UID in precondition differs"
            )
        if "deletionTimestamp" in meta:
            raise conflict(
                "pods/binding",
                "",
                name,
                f"pod {name} is being deleted, cannot be assigned to a host",
            )
        if spec.get("nodeName"):
            why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
            raise conflict("pods/binding", "", name, why)
        if not options.dry_run:
            scheduled = {
                "type": "PodScheduled",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": timestamp(),
            }
            status = pod.get("status") or {}
            others = [
                item for item in status.get("conditions") or () if item["type"] != "PodScheduled"
            ]
            bound = {
                **pod,
                "metadata": dict(meta),
                "spec": {**spec, "nodeName": node},
                "status": {**status, "conditions": [*others, scheduled]},
            }
            self._operations.store.put("pods", bound)
        return _SUCCESS

    def evict(self, namespace: str, name: str, body: Obj, options: WriteOptions) -> Obj:
        """Delete a pod unless a PodDisruptionBudget forbids it."""
        pods = self._operations.catalogue.named("pods")
        pod = self._operations.get(Target(pods, namespace, name))
        if (body.get("metadata") or {}).get("name") != name:
            raise bad_request("name in URL does not match name in Eviction object")
        given = body.get("deleteOptions") or {}
        preconditions = given.get("preconditions") or {}
        delete = DeleteOptions(
            grace_period_seconds=given.get("gracePeriodSeconds"),
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            dry_run=options.dry_run or bool(given.get("dryRun")),
        )
        phase = (pod.get("status") or {}).get("phase")
        terminal = (
            phase in {"Succeeded", "Failed", "Pending"} or "deletionTimestamp" in pod["metadata"]
        )
        if not terminal:
            budgets = self._budgets_of(pod)
            if len(budgets) > 1:
                raise unexplained(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
                )
            if budgets:
                self._disrupt(pod, budgets[0], dry_run=delete.dry_run)
        if (
            not delete.dry_run
            and "deletionTimestamp" not in pod["metadata"]
            and delete.resource_version is None
        ):
            self._mark_disrupted(pod, delete)
        self._operations.delete(Target(pods, namespace, name), delete)
        return _SUCCESS

    def _mark_disrupted(self, pod: Obj, delete: DeleteOptions) -> None:
        """Write the reason of the deletion into the pod's status. Raise ApiError 409 if another
        pod has this name now.
        """
        meta = pod["metadata"]
        status = pod.get("status") or {}
        if delete.uid not in {None, meta["uid"]}:
            why = f"Precondition failed: UID in precondition: {delete.uid}, UID in object meta: {meta['uid']}"
            raise conflict("pods", "", meta["name"], why)
        others = [
            item for item in status.get("conditions") or () if item["type"] != "DisruptionTarget"
        ]
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(),
        }
        changed = {**status, "conditions": [*others, condition]}
        self._operations.store.put("pods", {**pod, "metadata": dict(meta), "status": changed})

    def _budgets_of(self, pod: Obj) -> list[Obj]:
        labels = pod["metadata"].get("labels") or {}
        budgets = self._operations.store.bucket(BUDGETS).within(pod["metadata"]["namespace"])
        return [item for item in budgets if object_selector(item["spec"].get("selector"))(labels)]

    def _disrupt(self, pod: Obj, budget: Obj, *, dry_run: bool) -> None:
        """Count one disruption against a budget; raise ApiError 429 if none is left."""
        name = budget["metadata"]["name"]
        status = budget.get("status") or {}
        message = "Cannot evict pod as it would violate the pod's disruption budget."
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            why = f"The disruption budget {name} is still being processed by the server."
            raise _refused(message, why, 10)
        if not _is_ready(pod):
            always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
            if always or status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0:
                return
        allowed = status.get("disruptionsAllowed", 0)
        if allowed <= 0:
            why = (
                f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods and has "
                f"{status.get('currentHealthy', 0)} currently"
            )
            raise _refused(message, why, 0)
        if dry_run:
            return
        disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: timestamp()}
        changed = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
        self._operations.store.put(
            BUDGETS, {**budget, "metadata": dict(budget["metadata"]), "status": changed}
        )

    def scale(self, target: Target) -> Obj:
        resource = target.resource
        obj = self._operations.get(target._replace(subresource=""))
        paths = resource.scale or {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
        }
        meta = obj["metadata"]
        scale: Obj = {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {
                key: meta[key]
                for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
                if key in meta
            },
            "spec": {"replicas": replicas}
            if (replicas := _at(obj, paths["specReplicasPath"]))
            else {},
            "status": {"replicas": _at(obj, paths["statusReplicasPath"]) or 0},
        }
        if resource.scale is None:
            scale["status"]["selector"] = selector_text(obj["spec"].get("selector") or {})
        elif paths.get("labelSelectorPath"):
            scale["status"]["selector"] = _at(obj, paths["labelSelectorPath"]) or ""
        return scale

    def rescale(self, target: Target, scale: Obj, options: WriteOptions) -> Obj:
        """Copy the replicas of a Scale into its object."""
        resource = target.resource
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or replicas < 0:
            cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid("Scale", "autoscaling", target.name, [cause])
        path = (
            (resource.scale or {"specReplicasPath": ".spec.replicas"})["specReplicasPath"]
            .strip(".")
            .split(".")
        )
        patch: Any = replicas
        for step in reversed(path):
            patch = {step: patch}
        version = (scale.get("metadata") or {}).get("resourceVersion")
        if version:
            patch["metadata"] = {"resourceVersion": version}
        main = target._replace(subresource="")
        self._operations.patch(main, patch, "merge", options)
        return self.scale(main)


def _refused(message: str, why: str, seconds: int) -> ApiError:
    return too_many_requests(message, seconds, [{"reason": "DisruptionBudget", "message": why}])


def _is_ready(pod: Obj) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _at(obj: Obj, path: str) -> Any:
    value: Any = obj
    for step in path.strip(".").split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def selector_text(selector: Obj) -> str:
    """Write a ``metav1.LabelSelector`` as a selector string."""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for item in selector.get("matchExpressions") or ():
        operator = item["operator"]
        values = ",".join(item.get("values") or ())
        if operator in {"In", "NotIn"}:
            parts.append(f"{item['key']} {operator.lower()} ({values})")
        else:
            parts.append(item["key"] if operator == "Exists" else f"!{item['key']}")
    return ",".join(parts)
