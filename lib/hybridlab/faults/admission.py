# SPDX-License-Identifier: Apache-2.0
"""Faults of admission: what somebody else's webhooks, defaults and quotas make of what is to be created."""

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
    "quota",
    "denies",
    "times-out",
)
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
            for one in containers:
                one["image"] = f"mirror.example.com/{one['image']}"
        case "restricted":
            meta.setdefault("labels", {})[f"{PREFIX}enforce"] = "restricted"
        case "quota":
            raise forbidden(
                "pods",
                "",
                meta["name"],
                "failed quota: compute: must specify limits.cpu,limits.memory",
            )
        case "denies":
            raise ApiError(
                403,
                "Forbidden",
                f"admission webhook {HOOK} denied the request: label owner is missing",
            )
        case "times-out":
            raise internal(
                f"failed calling webhook {HOOK}: failed to call webhook: {UNANSWERED}", caused=True
            )


@TYPES.fault(
    "admission",
    "api",
    Parameter("does", ", ".join(DOES), choices=DOES),
    Parameter(
        "of",
        "plural name of a resource: namespaces for restricted, any for denies and times-out",
        "pods",
    ),
    Parameter("namespaces", "only in namespaces whose names begin so", ""),
    scope="all, namespace",
)
def admission(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Somebody else's admission changes what is to be created, or refuses it."""
    there = lab.interference.admission.taps
    does = parameters["does"]
    of = parameters["of"]

    def admit(obj: Obj, plural: str, old: Obj | None) -> Obj:
        where = str(obj["metadata"].get("namespace") or obj["metadata"]["name"])
        if old is None and plural == of and where.startswith(parameters["namespaces"]):
            _admit(does, obj)
        return obj

    return Entries(identity, admit, {f"admission of {of}: {does}": there})
