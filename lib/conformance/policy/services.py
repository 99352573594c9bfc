# SPDX-License-Identifier: Apache-2.0
"""The members of a Service that has no EndpointSlice, from its selector and the pods.

Source: Kubernetes' reference, Service (selector, ports, targetPort).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Port = tuple[str, int]
Name = tuple[str, str]


@dataclass(frozen=True)
class Candidate:
    """A pod that a Service may select."""

    namespace: str
    labels: Mapping[str, str]
    addresses: frozenset[int]
    ports: Mapping[Name, int]
    """The numbers of ports by protocol and name: ``("TCP", "http")``."""
    ready: bool


def candidate(pod: Mapping[str, Any], addresses: frozenset[int]) -> Candidate:
    """Return a pod in the form in which Services select it."""
    meta = pod["metadata"]
    conditions = (pod.get("status") or {}).get("conditions") or ()
    not_ready = any(
        one.get("type") == "Ready" and one.get("status") == "False" for one in conditions
    )
    ports = {
        (str(port.get("protocol") or "TCP"), str(port["name"])): int(port["containerPort"])
        for container in (pod.get("spec") or {}).get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("name")
    }
    space = str(meta.get("namespace") or "default")
    return Candidate(space, meta.get("labels") or {}, addresses, ports, not not_ready)


def members(
    service: Mapping[str, Any], pods: Iterable[Candidate]
) -> Iterator[tuple[Candidate, list[Port]]] | None:
    """Return the pods of a Service, each with protocol and number of its ports. None: the Service
    has no selector, so its members are not known."""
    spec = service.get("spec") or {}
    wanted = spec.get("selector")
    if not wanted:
        return None
    space = str(service["metadata"].get("namespace") or "default")
    return (
        (pod, [found for port in spec.get("ports") or () if (found := _port(port, pod))])
        for pod in pods
        if pod.namespace == space and wanted.items() <= pod.labels.items()
    )


def _port(port: Mapping[str, Any], pod: Candidate) -> Port | None:
    protocol = str(port.get("protocol") or "TCP")
    target = port.get("targetPort") or port["port"]
    number = pod.ports.get((protocol, target)) if isinstance(target, str) else int(target)
    return None if number is None else (protocol, number)
