# SPDX-License-Identifier: Apache-2.0
"""The pod in which the run itself runs; no test may take away its node or its network.

The Job that ``calico-conformance job`` prints passes node and address to the pod by the downward
API.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from conformance.errors import SuiteError, first_line
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import list_at, value_at
from conformance.model.facts import Facts
from conformance.settings import OwnPod

NODE = "CALICO_CONFORMANCE_NODE"
ADDRESS = "CALICO_CONFORMANCE_POD_IP"
POOLS = ("projectcalico.org/v3", "crd.projectcalico.org/v1")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def own_pod(kube: Kube, facts: Facts, environ: Mapping[str, str]) -> OwnPod:
    """Return the pod of this process, and whether its path to the API server may cross the
    overlay."""
    node = environ.get(NODE, "")
    address = environ.get(ADDRESS, "")
    hosts = {item.address for item in facts.nodes}
    try:
        overlay = "" if address in hosts else _overlay(kube, address)
    except SuiteError as error:
        overlay = f"the pod's path could not be read: {first_line(error)}"
    return OwnPod(node=node, overlay=overlay)


def _overlay(kube: Kube, address: str) -> str:
    """Return the reason why the path from a pod's address to the API server may cross the overlay;
    an empty string if it certainly does not.

    Traffic between nodes' own addresses does not use the overlay. Answers do not use it either if
    natOutgoing of the pool has replaced the pod's address by the node's.
    """
    if not address:
        return f"the pod's address is not known ({ADDRESS} is not set)"
    api = next((api for api in POOLS if kube.discovery.serves(api, "IPPool")), "")
    pools = kube.objects(api, "IPPool") if api else []
    own = _pool_of(address, pools)
    if own is None:
        return f"the pod's address {address} is neither a node address nor in an IP pool"
    slices = kube.objects(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "default",
        labels="kubernetes.io/service-name=kubernetes",
    )
    endpoints = list(_endpoints(slices))
    if not endpoints:
        return "the API server's endpoints are not known (Service default/kubernetes has none)"
    server = urlsplit(kube.access.server).hostname or ""
    for end in (*endpoints, server):
        pool = _pool_of(end, pools)
        if not _parsed(end):
            return f"the API server is addressed by name ({end}), which the cluster's DNS resolves"
        if pool:
            return f"the API server's address {end} is in IP pool {pool['metadata']['name']}"
    if not value_at(own, "spec", "natOutgoing"):
        name = own["metadata"]["name"]
        return f"answers go to the pod's own address (IP pool {name} has no natOutgoing)"
    return ""


def _endpoints(slices: Iterable[Obj]) -> Iterator[str]:
    for one in slices:
        for endpoint in list_at(one, "endpoints"):
            yield from map(str, list_at(endpoint, "addresses"))


def _pool_of(address: str, pools: Iterable[Obj]) -> Obj | None:
    """Return the IP pool that contains an address; None if no pool does, or if the text is no
    address."""
    parsed = _parsed(address)
    for pool in pools:
        cidr = str(value_at(pool, "spec", "cidr") or "")
        if parsed and cidr and parsed in ipaddress.ip_network(cidr, strict=False):
            return pool
    return None


def _parsed(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
