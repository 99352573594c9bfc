# SPDX-License-Identifier: Apache-2.0
"""Pods: admission, defaults, checks, allowed changes, and graceful deletion."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from hybridlab.api.contract import Obj
from hybridlab.api.errors import Cause, forbidden, forbidden_field, invalid_value
from hybridlab.api.kinds import pod_security
from hybridlab.api.kinds.pod_checks import pod_spec_problems
from hybridlab.api.kinds.pod_defaults import default_pod_spec, default_tolerations, qos_class
from hybridlab.api.kinds.strategy import Strategy, with_times
from hybridlab.api.store import Store

PRIORITIES: Final[Mapping[str, int]] = {
    "": 0,
    "system-cluster-critical": 2000000000,
    "system-node-critical": 2000001000,
    "tenants": 1000,
}
"""The priority classes that exist (scheduling.k8s.io itself is not served). ``tenants`` is the
class of another owner, which a fault sets in pods."""

_CHANGEABLE = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations`"
IMMUTABLE_RULE = (
    f"pod updates may not change fields other than {_CHANGEABLE} (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class PodStrategy(Strategy):
    """The rules of pods."""

    returns_deleted = True
    ends_in_two_steps = True

    def __init__(self, store: Store) -> None:
        self._store = store

    def default(self, obj: Obj) -> None:
        default_pod_spec(obj["spec"])
        obj["spec"].setdefault("enableServiceLinks", True)

    def prepare_create(self, obj: Obj) -> None:
        spec = obj["spec"]
        meta = obj["metadata"]
        name = meta["name"]
        namespace = meta["namespace"]
        account = spec.setdefault("serviceAccountName", "default")
        spec["serviceAccount"] = account
        if self._store.bucket("serviceaccounts").get((namespace, account)) is None:
            why = f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
            raise forbidden("pods", "", name, why)
        default_tolerations(spec)
        priority_class = spec.get("priorityClassName", "")
        if priority_class not in PRIORITIES:
            raise forbidden(
                "pods", "", name, f"no PriorityClass with name {priority_class} was found"
            )
        spec["priority"] = PRIORITIES[priority_class]
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}

    def admit(self, obj: Obj) -> None:
        labels = self._namespace_labels(obj["metadata"]["namespace"])
        level = labels.get(pod_security.PREFIX + "enforce", "privileged")
        broken = pod_security.violations(level, obj["spec"])
        if broken:
            why = f'violates PodSecurity "{level}:latest": ' + ", ".join(broken)
            raise forbidden("pods", "", obj["metadata"]["name"], why)

    def _namespace_labels(self, namespace: str) -> Mapping[str, str]:
        found = self._store.bucket("namespaces").get(("", namespace))
        labels: Mapping[str, str] = (found or {}).get("metadata", {}).get("labels") or {}
        return labels

    def prepare_update(self, obj: Obj, old: Obj, subresource: str) -> None:
        if not subresource:
            default_tolerations(obj["spec"])
        if subresource == "status":
            obj["status"] = {
                **(obj.get("status") or {}),
                "qosClass": (old.get("status") or {}).get("qosClass"),
            }
            if obj["status"]["qosClass"] is None:
                obj["status"]["qosClass"] = qos_class(obj["spec"])
            if "conditions" in obj["status"]:
                obj["status"]["conditions"] = with_times(
                    obj["status"]["conditions"], "lastProbeTime", "lastTransitionTime"
                )

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        if old is None:
            return pod_spec_problems(obj["spec"])
        if obj["spec"] == old["spec"]:
            return ()
        return _change_problems(obj["spec"], old["spec"])

    def warnings(self, obj: Obj) -> Iterable[str]:
        labels = self._namespace_labels(obj["metadata"]["namespace"])
        level = labels.get(pod_security.PREFIX + "warn", "privileged")
        broken = pod_security.violations(level, obj["spec"])
        if broken:
            yield f'would violate PodSecurity "{level}:latest": ' + ", ".join(broken)

    def grace_seconds(self, obj: Obj, requested: int | None) -> int:
        if not obj["spec"].get("nodeName") or (obj.get("status") or {}).get("phase") in {
            "Failed",
            "Succeeded",
        }:
            return 0
        if requested is not None:
            return max(requested, 0)
        return int(obj["spec"].get("terminationGracePeriodSeconds", 30))


def _change_problems(spec: Obj, old: Obj) -> Iterator[Cause]:
    """Return the forbidden changes of a running pod's spec."""
    kept = old.get("tolerations") or []
    now = spec.get("tolerations") or []
    if [item for item in kept if item not in now]:
        yield forbidden_field(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        )
    if spec.get("activeDeadlineSeconds") is None and old.get("activeDeadlineSeconds") is not None:
        yield invalid_value(
            "spec.activeDeadlineSeconds",
            None,
            "must not update from a positive integer to nil value",
        )
    if spec.get("nodeName") != old.get("nodeName") or _fixed(spec) != _fixed(old):
        changed = sorted(
            key for key in spec.keys() | old.keys() if _fixed(spec).get(key) != _fixed(old).get(key)
        )
        yield forbidden_field("spec", f"{IMMUTABLE_RULE}: changed: {', '.join(changed)}")


def _fixed(spec: Obj) -> dict[str, Any]:
    """Return a spec without the fields that may change."""
    fixed = {
        key: value
        for key, value in spec.items()
        if key not in {"tolerations", "activeDeadlineSeconds"}
    }
    for group in ("containers", "initContainers"):
        if group in fixed:
            fixed[group] = [
                {k: v for k, v in item.items() if k != "image"} for item in fixed[group]
            ]
    return fixed
