# SPDX-License-Identifier: Apache-2.0
"""Builders for the objects of system workloads: containers, pod templates, workloads."""

from collections.abc import Mapping, Sequence
from typing import Any

from hybridlab.api.contract import Obj

EVERYWHERE = [
    {"operator": "Exists", "effect": "NoSchedule"},
    {"operator": "Exists", "effect": "NoExecute"},
]
CRITICAL = {"operator": "Exists", "key": "CriticalAddonsOnly"}
CONTROL_PLANE = {
    "key": "node-role.kubernetes.io/control-plane",
    "operator": "Exists",
    "effect": "NoSchedule",
}
SYSTEM = "NT AUTHORITY\\SYSTEM"


def container(
    name: str,
    image: str,
    *,
    command: Sequence[str] = (),
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    ports: Sequence[Obj] = (),
    readiness: Obj | None = None,
    cpu: str = "",
) -> Obj:
    """Return one container; ``env`` values that begin with ``field:`` are read from the pod,
    ``configmap:NAME/KEY`` from a ConfigMap."""
    made: Obj = {"name": name, "image": image, "imagePullPolicy": "IfNotPresent"}
    if command:
        made["command"] = list(command)
    if args:
        made["args"] = list(args)
    if env:
        made["env"] = [_variable(key, value) for key, value in env.items()]
    if ports:
        made["ports"] = list(ports)
    if readiness:
        made["readinessProbe"] = readiness
    if cpu:
        made["resources"] = {"requests": {"cpu": cpu}}
    return made


def _variable(name: str, value: str) -> Obj:
    kind, colon, path = value.partition(":")
    if colon and kind == "field":
        return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
    if colon and kind == "configmap":
        source, _, key = path.partition("/")
        return {"name": name, "valueFrom": {"configMapKeyRef": {"name": source, "key": key}}}
    return {"name": name, "value": value}


def pod_spec(os: str, containers: Sequence[Obj], **more: Any) -> Obj:
    """Return a pod spec for one operating system."""
    return {"containers": list(containers), "nodeSelector": {"kubernetes.io/os": os}, **more}


def host_process(containers: Sequence[Obj], **more: Any) -> Obj:
    """Return a Windows pod spec with containers that run in the host."""
    windows = {"windowsOptions": {"hostProcess": True, "runAsUserName": SYSTEM}}
    return pod_spec("windows", containers, hostNetwork=True, securityContext=windows, **more)


def deployment(
    name: str, namespace: str, labels: Mapping[str, str], spec: Obj, *, replicas: int = 1
) -> Obj:
    """Return a Deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"replicas": replicas, **_template(labels, spec)},
    }


def daemon_set(name: str, namespace: str, labels: Mapping[str, str], spec: Obj) -> Obj:
    """Return a DaemonSet."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {**_template(labels, spec), "updateStrategy": {"type": "RollingUpdate"}},
    }


def _template(labels: Mapping[str, str], spec: Obj) -> Obj:
    return {
        "selector": {"matchLabels": dict(labels)},
        "template": {"metadata": {"labels": dict(labels)}, "spec": spec},
    }


def service_account(name: str, namespace: str) -> tuple[str, Obj]:
    """Return a ServiceAccount with its resource name."""
    meta = {"name": name, "namespace": namespace}
    return "serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}


def config_map(name: str, namespace: str, data: Mapping[str, str]) -> tuple[str, Obj]:
    """Return a ConfigMap with its resource name."""
    meta = {"name": name, "namespace": namespace}
    return "configmaps", {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "data": dict(data),
    }
