# SPDX-License-Identifier: Apache-2.0
"""Kubernetes and Calico objects to what the calculation graph is told."""

import math

from hybridlab.policy import Obj
from hybridlab.policy.ipsets import NetworkSet
from hybridlab.policy.policy import networks, of_ipv4
from hybridlab.policy.resolve import PodFacts, TierFacts

_FINISHED = frozenset({"Succeeded", "Failed"})
POD_IP = "cni.projectcalico.org/podIP"


def pod_facts(pod: Obj) -> PodFacts | None:
    """A pod as an endpoint; None when it has no network of its own (yet, or any more)."""
    meta = pod["metadata"]
    spec = pod["spec"]
    status = pod.get("status") or {}
    node = spec.get("nodeName")
    if not node or spec.get("hostNetwork") or status.get("phase") in _FINISHED:
        return None
    noted = (meta.get("annotations") or {}).get(POD_IP, "").partition("/")[0]
    return PodFacts(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        node=node,
        address=noted or status.get("podIP") or None,
        labels=meta.get("labels") or {},
        service_account=spec.get("serviceAccountName") or "default",
        ports=tuple(
            (port["name"], port.get("protocol", "TCP").lower(), port["containerPort"])
            for container in spec.get("containers") or ()
            for port in container.get("ports") or ()
            if port.get("name")
        ),
    )


def labels_and_name(obj: Obj) -> dict[str, str]:
    """The labels of a namespace or service account, with the one that Calico gives to select by name."""
    return {
        **(obj["metadata"].get("labels") or {}),
        "projectcalico.org/name": obj["metadata"]["name"],
    }


def slice_members(obj: Obj) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Addresses of an EndpointSlice, ready or not (felix/serviceindex), without and with its ports."""
    addresses = tuple(
        address
        for endpoint in obj.get("endpoints") or ()
        for address in endpoint["addresses"]
        if ":" not in address
    )
    ports = tuple(
        (port.get("protocol", "TCP").lower(), port["port"])
        for port in obj.get("ports") or ()
        if port.get("port")
    )
    return addresses, tuple(
        f"{address},{protocol},{port}" for address in addresses for protocol, port in ports
    )


def network_set(obj: Obj) -> NetworkSet:
    """A NetworkSet or GlobalNetworkSet."""
    meta = obj["metadata"]
    return NetworkSet(
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        labels=meta.get("labels") or {},
        nets=of_ipv4(networks((obj.get("spec") or {}).get("nets"))),
    )


def tier_facts(obj: Obj) -> TierFacts:
    """A Tier; one without an order comes last."""
    spec = obj.get("spec") or {}
    order = spec.get("order")
    return TierFacts(
        name=obj["metadata"]["name"],
        order=math.inf if order is None else float(order),
        end="pass" if spec.get("defaultAction") == "Pass" else "deny",
    )
