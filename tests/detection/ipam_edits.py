# SPDX-License-Identifier: Apache-2.0
"""Changes of a running lab's IP addresses through its API: blocks, pools, affinities, single addresses."""

from __future__ import annotations

import contextlib
import ipaddress
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.detection.lab_api import ANSWER_WITHIN, Api

AFFINITIES = "/apis/crd.projectcalico.org/v1/blockaffinities"


BORROWED = "192.168.0.77"
"""An address in the first Linux node's block."""


def _affinity(api: Api, node: str) -> Any:
    return next(item for item in api("GET", AFFINITIES)["items"] if item["spec"]["node"] == node)


@contextmanager
def strict_affinity_off(api: Api) -> Iterator[None]:
    """Set strictAffinity to false in IPAMConfiguration default, after everything was set up
    correctly."""
    path = "/apis/projectcalico.org/v3/ipamconfigurations/default"
    api.merge(path, {"spec": {"strictAffinity": False}})
    yield
    api.merge(path, {"spec": {"strictAffinity": True}})


@contextmanager
def second_block(api: Api) -> Iterator[None]:
    """Give a Windows node a second confirmed block."""
    one = _affinity(api, "windows-2022")
    spec = {**one["spec"], "cidr": "192.168.250.0/26"}
    name = "windows-2022-192-168-250-0-26"
    api(
        "POST",
        AFFINITIES,
        {
            "apiVersion": one["apiVersion"],
            "kind": one["kind"],
            "metadata": {"name": name},
            "spec": spec,
        },
    )
    yield
    api("DELETE", f"{AFFINITIES}/{name}")


@contextmanager
def block_of_two_nodes(api: Api, node: str) -> Iterator[None]:
    """Give a Linux node the block of a Windows node, too."""
    one = _affinity(api, node)
    name = f"linux-1-of-{node}"
    body = {"apiVersion": one["apiVersion"], "kind": one["kind"], "metadata": {"name": name}}
    api("POST", AFFINITIES, {**body, "spec": {**one["spec"], "node": "linux-1"}})
    yield
    api("DELETE", f"{AFFINITIES}/{name}")


@contextmanager
def second_pool(api: Api) -> Iterator[None]:
    """Create a second pool, which no node may use."""
    path = "/apis/projectcalico.org/v3/ippools"
    spec = {
        "cidr": "172.30.0.0/16",
        "vxlanMode": "Always",
        "ipipMode": "Never",
        "nodeSelector": "zone == 'b'",
    }
    body = {
        "apiVersion": "projectcalico.org/v3",
        "kind": "IPPool",
        "metadata": {"name": "second"},
        "spec": spec,
    }
    api("POST", path, body)
    yield
    api("DELETE", f"{path}/second")


@contextmanager
def windows_reservation_on_linux(api: Api) -> Iterator[None]:
    """Reserve the first two addresses of a Linux node's block, as only blocks of Windows nodes
    do."""
    blocks = "/apis/crd.projectcalico.org/v1/ipamblocks"
    cidr = _affinity(api, "linux-2")["spec"]["cidr"]
    before = next(item for item in api("GET", blocks)["items"] if item["spec"]["cidr"] == cidr)
    path, spec = f"{blocks}/{before['metadata']['name']}", before["spec"]
    ours = len(spec["attributes"])
    attributes = [*spec["attributes"], {"handle_id": "windows-reserved-ipam-handle"}]
    api.merge(
        path,
        {"spec": {"attributes": attributes, "allocations": [ours, ours, *spec["allocations"][2:]]}},
    )
    yield
    api.merge(
        path, {"spec": {"attributes": spec["attributes"], "allocations": spec["allocations"]}}
    )


@contextmanager
def borrowed_address(api: Api, node: str) -> Iterator[None]:
    """Give a pod on a node an address of a Linux node's block."""
    with pod_with_address(api, node, BORROWED):
        yield


@contextmanager
def reserved_address(api: Api, node: str) -> Iterator[None]:
    """Give a pod on a Windows node the address of its HNS network's gateway, the second of its
    block."""
    with pod_with_address(
        api, node, str(ipaddress.IPv4Network(_affinity(api, node)["spec"]["cidr"])[1])
    ):
        yield


@contextmanager
def address_in_a_reservation(api: Api, node: str) -> Iterator[None]:
    """Give a pod on a node an address that an IPReservation reserves."""
    path = "/apis/projectcalico.org/v3/ipreservations"
    address = str(ipaddress.IPv4Network(_affinity(api, node)["spec"]["cidr"])[50])
    spec = {"reservedCIDRs": [f"{address}/32"]}
    body = {
        "apiVersion": "projectcalico.org/v3",
        "kind": "IPReservation",
        "metadata": {"name": "ours"},
        "spec": spec,
    }
    api("POST", path, body)
    time.sleep(1.1)  # creation times are whole seconds, and the pod must be younger
    with pod_with_address(api, node, address):
        yield
    api("DELETE", f"{path}/ours")


@contextmanager
def affinity_gone(api: Api, node: str) -> Iterator[None]:
    """Delete the affinity of a node's block while pods have its addresses, so that the block
    belongs to no node."""
    before = _affinity(api, node)
    path = f"{AFFINITIES}/{before['metadata']['name']}"
    api("DELETE", path)
    yield
    meta = {"name": before["metadata"]["name"]}
    api("POST", AFFINITIES, {"apiVersion": before["apiVersion"], "kind": before["kind"], "metadata": meta,
                             "spec": before["spec"]})  # fmt: skip


@contextmanager
def pod_with_address(api: Api, node: str, address: str) -> Iterator[None]:
    """Create a pod on a node whose status has this address."""
    pods = "/api/v1/namespaces/default/pods"
    tag = {"windows-2019": "1809", "windows-2022": "ltsc2022"}[node]
    container = {
        "name": "borrower",
        "image": f"mcr.microsoft.com/windows/nanoserver:{tag}",
        "command": ["ping", "-t", "127.0.0.1"],
    }
    spec = {"nodeName": node, "containers": [container]}
    api(
        "POST",
        pods,
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "borrower"}, "spec": spec},
    )
    deadline = time.monotonic() + ANSWER_WITHIN
    while api("GET", f"{pods}/borrower")["status"].get("phase") != "Running":
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"pod borrower does not start: {api('GET', f'{pods}/borrower')['status']}"
            )
        time.sleep(0.2)
    api.merge(
        f"{pods}/borrower/status", {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
    )
    yield
    api("DELETE", f"{pods}/borrower", {"gracePeriodSeconds": 0})


EDITS: dict[str, Callable[..., contextlib.AbstractContextManager[None]]] = {
    item.__name__: item
    for item in (
        strict_affinity_off,
        second_block,
        block_of_two_nodes,
        second_pool,
        windows_reservation_on_linux,
        borrowed_address,
        pod_with_address,
        reserved_address,
        address_in_a_reservation,
        affinity_gone,
    )
}
