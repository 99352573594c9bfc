# SPDX-License-Identifier: Apache-2.0
"""Write lib/hybridlab/api/schemas/kubernetes.json: the fields of every built-in kind that the lab serves.

Run by a developer after raising the version of the Kubernetes client, never at run time: ``python
tools/generate_api_schemas.py``. Names, types and required fields are read from the models of the
installed ``kubernetes`` package (made from the official OpenAPI document). Those models contain no
patch rules, so the keys by which lists merge are in the table below, which follows the API's
reference documentation.

One type per entry: ``f`` fields and their type code, ``r`` required fields, ``k`` how lists merge, ``a`` replaced as a
whole.  Type codes: s string, i integer, n number, b boolean, I integer or string, t time, T time
with microseconds, q quantity, y base64,
o anything, ``[X`` list, ``{X`` map of strings to X, ``.Name`` another type.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
from kubernetes.client import models

ROOTS = [
    "V1Pod",
    "V1Service",
    "V1Node",
    "V1Namespace",
    "V1ConfigMap",
    "V1PersistentVolumeClaim",
    "V1Secret",
    "V1ServiceAccount",
    "V1Endpoints",
    "CoreV1Event",
    "EventsV1Event",
    "V1Deployment",
    "V1ReplicaSet",
    "V1DaemonSet",
    "V1EndpointSlice",
    "V1NetworkPolicy",
    "V1PodDisruptionBudget",
    "V1Eviction",
    "V1Lease",
    "V1Role",
    "V1ClusterRole",
    "V1RoleBinding",
    "V1ClusterRoleBinding",
    "V1CustomResourceDefinition",
    "V1APIService",
    "V1Binding",
    "V1Scale",
    "V1TokenReview",
    "V1SubjectAccessReview",
    "V1LocalSubjectAccessReview",
    "V1SelfSubjectAccessReview",
    "V1SelfSubjectRulesReview",
    "V1SelfSubjectReview",
    "AuthenticationV1TokenRequest",
    "V1DeleteOptions",
    "V1Status",
]

OPAQUE = {"V1JSONSchemaProps", "V1ExternalDocumentation"}
"""Types that are stored as ``anything``: they describe themselves."""

QUANTITIES = {
    ("V1ResourceRequirements", "limits"), ("V1ResourceRequirements", "requests"),
    ("V1VolumeResourceRequirements", "limits"), ("V1VolumeResourceRequirements", "requests"),
    ("V1NodeStatus", "capacity"), ("V1NodeStatus", "allocatable"), ("V1PodSpec", "overhead"),
    ("V1ContainerStatus", "allocatedResources"), ("V1EmptyDirVolumeSource", "sizeLimit"),
    ("V1ResourceFieldSelector", "divisor"),
}  # fmt: skip

MICRO_TIMES = {
    ("V1LeaseSpec", "acquireTime"), ("V1LeaseSpec", "renewTime"), ("CoreV1Event", "eventTime"),
    ("EventsV1Event", "eventTime"), ("CoreV1EventSeries", "lastObservedTime"),
    ("EventsV1EventSeries", "lastObservedTime"),
}  # fmt: skip

MERGE: dict[tuple[str, str], dict[str, Any]] = {}
"""Map (type, field) to its rule. p: the key of strategic merge, k: the keys of server-side apply,
s: a set, c: only these keys are kept."""


def _merge(types: str, field: str, *keys: str, patch: str = "", retain: bool = False) -> None:
    for name in types.split():
        rule: dict[str, Any] = {"p": patch or keys[0], "k": list(keys)}
        if retain:
            rule["c"] = 1
        MERGE[name, field] = rule


_CONTAINERS = "V1Container V1EphemeralContainer"
_merge("V1PodSpec", "containers", "name")
_merge("V1PodSpec", "initContainers", "name")
_merge("V1PodSpec", "ephemeralContainers", "name")
_merge("V1PodSpec", "volumes", "name", retain=True)
_merge("V1PodSpec", "imagePullSecrets", "name")
_merge("V1PodSpec", "hostAliases", "ip")
_merge("V1PodSpec", "topologySpreadConstraints", "topologyKey", "whenUnsatisfiable")
_merge("V1PodSpec", "resourceClaims", "name", retain=True)
_merge("V1PodSpec", "schedulingGates", "name")
_merge(_CONTAINERS, "ports", "containerPort", "protocol")
_merge(_CONTAINERS, "env", "name")
_merge(_CONTAINERS, "volumeMounts", "mountPath")
_merge(_CONTAINERS, "volumeDevices", "devicePath")
_merge("V1ResourceRequirements", "claims", "name")
_merge("V1PodStatus", "podIPs", "ip")
_merge("V1ServiceSpec", "ports", "port", "protocol")
_merge("V1ServiceAccount", "secrets", "name")
_merge("V1NodeStatus", "addresses", "type")
_merge("V1ObjectMeta", "ownerReferences", "uid")
for _status in [
    "V1PodStatus",
    "V1NodeStatus",
    "V1NamespaceStatus",
    "V1ServiceStatus",
    "V1DeploymentStatus",
    "V1ReplicaSetStatus",
    "V1DaemonSetStatus",
    "V1PodDisruptionBudgetStatus",
    "V1APIServiceStatus",
    "V1CustomResourceDefinitionStatus",
]:
    _merge(_status, "conditions", "type")
MERGE["V1ObjectMeta", "finalizers"] = {"s": 1}
MERGE["V1NodeSpec", "podCIDRs"] = {"s": 1}

NOT_REQUIRED = {
    ("V1EndpointSlice", "endpoints"), ("V1RoleRef", "apiGroup"), ("V1PolicyRule", "verbs"),
    ("V1DeploymentSpec", "selector"), ("V1DeploymentSpec", "template"), ("V1DaemonSetSpec", "selector"),
    ("V1DaemonSetSpec", "template"), ("V1ReplicaSetSpec", "selector"),
    ("V1OwnerReference", "apiVersion"), ("V1OwnerReference", "kind"), ("V1OwnerReference", "name"),
    ("V1OwnerReference", "uid"),
}  # fmt: skip
"""Fields that the models require in answers, but that requests may omit: they are filled in, or the
checks of the kind handle them."""

ATOMIC = {
    "V1LabelSelector",
    "V1ObjectReference",
    "V1LocalObjectReference",
    "V1SecretKeySelector",
    "V1ConfigMapKeySelector",
    "V1ResourceFieldSelector",
    "V1ObjectFieldSelector",
    "V1NodeSelector",
    "V1NodeSelectorTerm",
    "V1TypedLocalObjectReference",
    "V1RoleRef",
    "RbacV1Subject",
    "V1OwnerReference",
    "V1EndpointAddress",
    "CoreV1EndpointPort",
    "DiscoveryV1EndpointPort",
    "V1FileKeySelector",
}

_SCALARS = {"str": "s", "int": "i", "bool": "b", "datetime": "t", "bytes": "y", "float": "n"}


def _code(declared: str, annotation: str) -> str:
    if found := re.fullmatch(r"List\[(.*)\]", declared):
        return "[" + _code(found[1], annotation)
    if found := re.fullmatch(r"Dict\[str, (.*)\]", declared):
        return "{" + _code(found[1], annotation)
    if declared == "object":
        both = "int" in annotation.lower() and "str" in annotation and "Dict" not in annotation
        return "I" if both else "o"
    if declared in OPAQUE:
        return "o"
    return _SCALARS.get(declared) or "." + declared


def _entry(name: str) -> dict[str, Any]:
    model = getattr(models, name)
    fields: dict[str, str] = {}
    required: list[str] = []
    rules: dict[str, Any] = {}
    by_alias = {field.serialization_alias: field for field in model.model_fields.values()}
    for attribute, declared in model.openapi_types.items():
        wire = model.attribute_map[attribute]
        info = model.model_fields.get(attribute) or by_alias[wire]
        code = _code(declared, str(info.annotation))
        if (name, wire) in QUANTITIES:
            code = code[:-1] + "q"
        elif (name, wire) in MICRO_TIMES:
            code = "T"
        fields[wire] = code
        if info.is_required() and (name, wire) not in NOT_REQUIRED:
            required.append(wire)
        if (name, wire) in MERGE:
            rules[wire] = MERGE[name, wire]
    entry: dict[str, Any] = {"f": dict(sorted(fields.items()))}
    if required:
        entry["r"] = sorted(required)
    if rules:
        entry["k"] = rules
    if name in ATOMIC:
        entry["a"] = 1
    return entry


def generate() -> dict[str, Any]:
    """Return every type reachable from the roots."""
    types: dict[str, Any] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name in types:
            continue
        types[name] = _entry(name)
        for code in types[name]["f"].values():
            if "." in code:
                waiting.append(code[code.index(".") + 1 :])
    unused = [
        place for place in MERGE if place[0] not in types or place[1] not in types[place[0]]["f"]
    ]
    if unused:
        raise SystemExit(f"MERGE has rules for fields that do not exist: {unused}")
    return dict(sorted(types.items()))


if __name__ == "__main__":
    target = Path(__file__).parent.parent / "lib/hybridlab/api/schemas/kubernetes.json"
    target.write_bytes(orjson.dumps(generate()) + b"\n")
    print(f"{target}: {target.stat().st_size} bytes")
