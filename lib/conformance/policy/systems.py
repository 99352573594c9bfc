# SPDX-License-Identifier: Apache-2.0
"""The operating system of a pod, found from all fields by which Kubernetes chooses its node.

Sources: Kubernetes' reference, PodSpec (os, nodeSelector, affinity, securityContext), RuntimeClass;
"Well-known labels".
"""

from collections.abc import Iterator, Mapping
from typing import Any

LABELS = ("kubernetes.io/os", "beta.kubernetes.io/os")
BUILD = "node.kubernetes.io/windows-build"
_OTHER = {"linux": "windows", "windows": "linux"}


def of_node(node: Mapping[str, Any]) -> str:
    """Return the operating system of a node; an empty string if the node does not report it."""
    info = (node.get("status") or {}).get("nodeInfo") or {}
    given = (node.get("metadata") or {}).get("labels") or {}
    return _known(*(given.get(name) for name in LABELS), info.get("operatingSystem"))


def of_pod(
    spec: Mapping[str, Any],
    nodes: Mapping[str, str],
    classes: Mapping[str, Mapping[str, str]],
) -> str:
    """Return ``linux`` or ``windows``; an empty string if no field that was read decides it.

    ``nodes``: each node's system by name; ``classes``: each RuntimeClass' nodeSelector by name.
    """
    of_class = classes.get(spec.get("runtimeClassName") or "", {})
    return _known(
        nodes.get(spec.get("nodeName") or ""),
        (spec.get("os") or {}).get("name"),
        _selected(spec.get("nodeSelector") or {}),
        _selected(of_class),
        _affine(spec.get("affinity") or {}),
        "windows"
        if any(
            (one.get("securityContext") or {}).get("windowsOptions") for one in _containers(spec)
        )
        else "",
        "linux" if set(nodes.values()) == {"linux"} else "",
    )


def _known(*said: Any) -> str:
    return next((str(one) for one in said if one in ("linux", "windows")), "")


def _selected(selector: Mapping[str, Any]) -> str:
    return _known(*(selector.get(name) for name in LABELS), "windows" if BUILD in selector else "")


def _containers(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield spec
    for name in ("initContainers", "containers"):
        yield from spec.get(name) or ()


def _affine(affinity: Mapping[str, Any]) -> str:
    """Return the system of the nodes that every term of a required affinity selects."""
    required = (affinity.get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    found = {
        _known(*map(_expressed, term.get("matchExpressions") or ()))
        for term in required.get("nodeSelectorTerms") or ()
    }
    return found.pop() if len(found) == 1 else ""


def _expressed(expression: Mapping[str, Any]) -> str:
    operator = expression.get("operator")
    values = expression.get("values") or []
    if expression.get("key") == BUILD:
        return "" if operator in ("NotIn", "DoesNotExist") else "windows"
    if expression.get("key") not in LABELS or len(values) != 1:
        return ""
    return str(values[0]) if operator == "In" else _OTHER.get(str(values[0]), "")
