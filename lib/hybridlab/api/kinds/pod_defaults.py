# SPDX-License-Identifier: Apache-2.0
"""The server's defaults for a pod, alone or as a template, for fields that a user may omit.

Values follow the API reference of Kubernetes 1.34. No field that is set is ever changed.
"""

from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.kinds.strategy import fill

_VOLUME_MODES = ("configMap", "secret", "projected", "downwardAPI")
_PROBES = frozenset({"livenessProbe", "readinessProbe", "startupProbe"})
NOT_READY_SECONDS = 300
"""Seconds for which a pod stays on a node that is gone or not ready (DefaultTolerationSeconds)."""


def default_pod_spec(spec: Obj) -> None:
    """Fill in a pod's spec in place."""
    fill(
        spec,
        restartPolicy="Always",
        dnsPolicy="ClusterFirst",
        schedulerName="default-scheduler",
        securityContext={},
    )
    if spec.setdefault("terminationGracePeriodSeconds", 30) < 0:
        spec["terminationGracePeriodSeconds"] = 1  # what negative values have meant since 1.22
    host_network = spec.get("hostNetwork") is True
    for group in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(group) or ():
            if isinstance(container, dict):
                _default_container(container, host_network=host_network)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]


def _default_container(container: Obj, *, host_network: bool) -> None:
    fill(container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File")
    image = container.get("image", "")
    tag = image.rpartition("/")[2].partition(":")[2] if "@" not in image else "digest"
    container.setdefault("imagePullPolicy", "Always" if tag in {"", "latest"} else "IfNotPresent")
    resources = container.setdefault("resources", {})
    if resources.get("limits"):
        fill(resources.setdefault("requests", {}), **resources["limits"])
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network and "containerPort" in port:
            port.setdefault("hostPort", port["containerPort"])
    for variable in container.get("env") or ():
        _default_field_reference(variable.get("valueFrom") or {})
    _default_handlers(container)


def _default_field_reference(source: Obj) -> None:
    if source.get("fieldRef") is not None:
        source["fieldRef"].setdefault("apiVersion", "v1")


def _default_handlers(container: Obj) -> None:
    """Fill in the probes and the lifecycle hooks of a container."""
    for name in _PROBES & container.keys():
        probe = container[name]
        fill(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
        _default_http(probe)
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _default_http(hook)


def _default_http(handler: Obj) -> None:
    http = handler.get("httpGet")
    if http is not None:
        fill(http, path="/", scheme="HTTP")


def _default_volume(volume: Obj) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for kind in _VOLUME_MODES:
        source = volume.get(kind)
        if source is not None:
            source.setdefault("defaultMode", 420)
    host_path = volume.get("hostPath")
    if host_path is not None:
        host_path.setdefault("type", "")
    for source in (volume.get("projected") or {}).get("sources") or ():
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _default_field_reference(item)


def default_tolerations(spec: Obj) -> None:
    """Add the tolerations that keep a pod on a lost node for five minutes, unless the pod tolerates
    these taints already."""
    tolerations: list[Obj] = list(spec.get("tolerations") or ())
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(item, key) for item in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": NOT_READY_SECONDS,
                }
            )
    spec["tolerations"] = tolerations


def _tolerates(toleration: Obj, key: str) -> bool:
    return toleration.get("key", "") in {"", key} and toleration.get("effect", "") in {
        "",
        "NoExecute",
    }


def qos_class(spec: Obj) -> str:
    """Return Guaranteed, Burstable or BestEffort."""
    any_resource = False
    guaranteed = True
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources: dict[str, Any] = container.get("resources") or {}
        limits = resources.get("limits") or {}
        requests = resources.get("requests") or {}
        if any(resource in group for group in (limits, requests) for resource in ("cpu", "memory")):
            any_resource = True
        for resource in ("cpu", "memory"):
            if (
                resource not in limits
                or requests.get(resource, limits[resource]) != limits[resource]
            ):
                guaranteed = False
    if not any_resource:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
