# SPDX-License-Identifier: Apache-2.0
"""Kubernetes and Calico objects as input of the calculation graph."""

import math

from hybridlab.policy import Obj
from hybridlab.policy.ipsets import NetworkSet
from hybridlab.policy.policy import networks, of_ipv4
from hybridlab.policy.resolve import PodFacts, TierFacts

_FINISHED = frozenset({"Succeeded", "Failed"})
POD_IP = "cni.projectcalico.org/podIP"


def pod_facts(pod: Obj) -> PodFacts | None:
    """Return the properties of a pod that policy rules match; None while the pod has no network of
    its own (not yet, or no longer)."""
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
    """Return the labels of a namespace or service account, with Calico's label of its name."""
    return {
        **(obj["metadata"].get("labels") or {}),
        "projectcalico.org/name": obj["metadata"]["name"],
    }


def slice_members(obj: Obj) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return two tuples of an EndpointSlice's members, ready or not (felix/serviceindex): the
    addresses, and the addresses with the slice's ports."""
    addresses = tuple(
        address
        for endpoint in obj.get("endpoints") or ()
        for address in endpoint["addresses"]
        if obj.get("addressType", "IPv4") == "IPv4"
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
    """Return the facts of a NetworkSet or GlobalNetworkSet."""
    meta = obj["metadata"]
    return NetworkSet(
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        labels=meta.get("labels") or {},
        nets=of_ipv4(networks((obj.get("spec") or {}).get("nets"))),
    )


def tier_facts(obj: Obj) -> TierFacts:
    """Return the facts of a Tier; a tier without an order comes last."""
    spec = obj.get("spec") or {}
    order = spec.get("order")
    return TierFacts(
        name=obj["metadata"]["name"],
        order=math.inf if order is None else float(order),
        end="pass" if spec.get("defaultAction") == "Pass" else "deny",
    )
