# SPDX-License-Identifier: Apache-2.0
"""Faults of admission: webhooks, defaults and quotas of another owner change or refuse new
objects."""

from collections.abc import Mapping

from hybridlab.api.contract import ApiError, Obj
from hybridlab.api.errors import forbidden, internal
from hybridlab.api.kinds.pod_security import PREFIX
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import Entries, Fault, Parameter, Types

TYPES = Types()
DOES = (
    "sidecar",
    "unready-sidecar",
    "proxy",
    "limits",
    "mirror",
    "restricted",
    "priority",
    "no-sysctls",
    "quota",
    "quota-exceeded",
    "limit-range",
    "denies",
    "times-out",
)
PRIORITY = {"priorityClassName": "tenants", "preemptionPolicy": "Never"}
"""Fields of the PriorityClass of another owner that is the cluster's default (``globalDefault``).
"""
REFUSALS = {
    "quota": "failed quota: compute: must specify limits.cpu,limits.memory",
    "quota-exceeded": "exceeded quota: compute, requested: pods=1, used: pods=20, limited: pods=20",
    "limit-range": "minimum cpu usage per Container is 50m, but request is 10m",
}
"""Messages of the admission plugins: two of ResourceQuota (a pod without limits, too many pods) and
one of LimitRanger."""
HOOK = '"policies.example.com"'
UNANSWERED = (
    'Post "https://policies.policy-system.svc:443/validate?timeout=10s": context deadline exceeded'
)


def _admit(does: str, obj: Obj) -> None:
    meta = obj["metadata"]
    containers = (obj.get("spec") or {}).get("containers") or []
    match does:
        case "sidecar" | "unready-sidecar" | "proxy":
            probe = (
                {"readinessProbe": {"tcpSocket": {"port": 15021}}}
                if does == "unready-sidecar"
                else {}
            )
            name = "istio-proxy" if does == "proxy" else "log-shipper"
            containers.append({"name": name, "image": "registry.k8s.io/pause:3.10.2", **probe})
        case "limits":
            for one in containers:
                one["resources"] = {
                    "limits": {"cpu": "500m", "memory": "512Mi"},
                    **(one.get("resources") or {}),
                }
        case "mirror":
            for container in containers:
                container["image"] = f"mirror.example.com/{container['image']}"
        case "restricted":
            meta.setdefault("labels", {})[f"{PREFIX}enforce"] = "restricted"
        case "priority":
            obj["spec"] |= PRIORITY
        case "no-sysctls":
            (obj["spec"].get("securityContext") or {}).pop("sysctls", None)
        case _:
            raise _refusal(does, meta["name"])


def _refusal(does: str, name: str) -> ApiError:
    match does:
        case "denies":
            words = f"admission webhook {HOOK} denied the request: label owner is missing"
            return ApiError(403, "Forbidden", words)
        case "times-out":
            words = f"failed calling webhook {HOOK}: failed to call webhook: {UNANSWERED}"
            return internal(words, caused=True)
        case _:
            return forbidden("pods", "", name, REFUSALS[does])


@TYPES.fault(
    "admission",
    "api",
    Parameter("does", ", ".join(DOES), choices=DOES),
    Parameter(
        "of",
        "plural name of a resource: namespaces for does=restricted, any resource for does=denies "
        "and does=times-out, otherwise pods",
        "pods",
    ),
    Parameter("namespaces", "only in namespaces whose names begin with this text", ""),
    scope="all, namespace",
)
def admission(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """An admission webhook, default or quota of another owner changes or refuses new objects."""
    there = lab.interference.admission.taps
    does = parameters["does"]
    of = parameters["of"]

    def admit(obj: Obj, plural: str, old: Obj | None) -> Obj:
        where = str(obj["metadata"].get("namespace") or obj["metadata"]["name"])
        if old is None and plural == of and where.startswith(parameters["namespaces"]):
            _admit(does, obj)
        return obj

    return Entries(identity, admit, {f"admission of new {of}: {does}": there})
