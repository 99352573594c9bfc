# SPDX-License-Identifier: Apache-2.0
"""Small complete objects for tests of the lab; keywords replace what a test is about."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]
"""An object of the Kubernetes API."""


def an_object(name: str = "web", *, namespace: str = "", **spec: Any) -> Obj:
    """Return an object to create; keywords are its spec."""
    place = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, **place}, "spec": spec}


def a_pod(
    name: str = "web",
    image: str = "nginx:1",
    *,
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    container: Obj | None = None,
    **spec: Any,
) -> Obj:
    """Return a pod with one container, ``main``; keywords are its spec."""
    containers = [{"name": "main", "image": image, **(container or {})}]
    pod = an_object(name, namespace=namespace, **({"containers": containers} | spec))
    pod["metadata"]["labels"] = {"app": name} if labels is None else labels
    return {"apiVersion": "v1", "kind": "Pod", **pod}


def a_deployment(
    name: str = "web",
    image: str = "nginx:1",
    *,
    labels: Obj | None = None,
    container: Obj | None = None,
    **spec: Any,
) -> Obj:
    """Return a Deployment of pods with one container; keywords are its spec."""
    labels = labels or {"app": name}
    pod = a_pod(name, image, container=container)
    template = {"metadata": {"labels": labels}, "spec": pod["spec"]}
    selected = {"selector": {"matchLabels": labels}, "template": template}
    return an_object(name, namespace="default", **(selected | spec))


def a_service(name: str = "web", **spec: Any) -> Obj:
    """Return a Service that selects the pods of its own name; keywords are its spec."""
    return an_object(name, namespace="default", **({"selector": {"app": name}} | spec))


def is_ready(pod: Obj) -> bool:
    """Return whether a pod is ready by its conditions."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
