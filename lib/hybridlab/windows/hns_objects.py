# SPDX-License-Identifier: Apache-2.0
"""HNS' networks, endpoints and policy lists as Get-HnsNetwork, Get-HnsEndpoint and Get-HnsPolicyList show them."""

import ipaddress
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hybridlab.dataplane.model import ServiceTable
from hybridlab.windows.hns_networks import HnsEndpoint, HnsNetwork

Object = dict[str, Any]
RUNNING = 1
"""The state of networks that work."""
CREATED = 1
ATTACHED = 2
ATTACHED_SHARING = 3
"""States of endpoints by hcsshim's numbers (internal/hns, EndpointState): 0 uninitialized, 1
created, 2 attached, 3 attached and shared by several containers, 4 detached, 5 degraded, 6
destroyed."""
SECONDS_FROM_1601_TO_1970 = 11_644_473_600
PROTOCOLS = {"tcp": 6, "udp": 17}


def network(found: HnsNetwork, management_address: str, routes: Iterable[Object]) -> Object:
    """Return a network as Get-HnsNetwork shows it. ``routes``: the policies that lead to other
    nodes, which Felix has added."""
    return {
        "ActivityId": found.id,
        "ID": found.id,
        "Name": found.name,
        "Type": found.spec.type,
        "State": RUNNING,
        "ManagementIP": management_address,
        "IPv6": False,
        "Health": {"LastErrorCode": 0, "LastUpdateTime": filetime(found.changed_at)},
        "Subnets": [
            {
                "AddressPrefix": found.spec.subnet,
                "GatewayAddress": found.spec.gateway,
                "Policies": [] if found.vsid is None else [{"Type": "VSID", "VSID": found.vsid}],
            }
        ],
        "Policies": [*(dict(policy) for policy in found.spec.policies), *routes],
    }


def filetime(seconds: float) -> int:
    """Return a time since 1970 in Windows' units of 100 ns since 1601."""
    return int((seconds + SECONDS_FROM_1601_TO_1970) * 10_000_000)


def endpoint(
    found: HnsEndpoint,
    on: HnsNetwork,
    own_policies: Sequence[Mapping[str, Any]],
    acls: Sequence[Mapping[str, Any]],
) -> Object:
    """Return an endpoint with the policies of the CNI plugin and the ACLs of Felix."""
    return {
        "ActivityId": found.id,
        "ID": found.id,
        "Name": found.name,
        # a pod's sandbox shares its endpoint with the pod's containers; the host's own endpoint is the host's alone
        "State": ATTACHED_SHARING if found.pod else ATTACHED,
        "VirtualNetwork": on.id,
        "VirtualNetworkName": on.name,
        "IPAddress": found.address,
        "PrefixLength": int(on.spec.subnet.partition("/")[2]),
        "MacAddress": hyphens(found.mac),
        "GatewayAddress": on.spec.pods_gateway or on.spec.gateway,
        "IsRemoteEndpoint": False,
        "Policies": [
            *(dict(policy) for policy in on.spec.endpoint_policies),
            *([dict(policy) for policy in own_policies] if found.pod else []),
            *(dict(acl) for acl in acls),
        ],
    }


def remote_endpoints(
    node: str, own: str, table: ServiceTable, on: HnsNetwork, there: Iterable[HnsEndpoint]
) -> list[Object]:
    """Return the endpoints that kube-proxy creates for backends on other nodes (kubernetes
    pkg/proxy/winkernel, createEndpoint).

    kube-proxy creates no such endpoint for the node's own pods and for the ``own`` address. The
    endpoints' policies (the other node's address) are not emulated: the lists are empty.
    """
    subnet = ipaddress.IPv4Network(on.spec.subnet)
    known = {own, *(item.address for item in there)}
    addresses = {backend.address for port in table.ports for backend in port.backends}
    return [
        {
            "ActivityId": _remote_id(node, address),
            "ID": _remote_id(node, address),
            "Name": "Ethernet",
            "State": CREATED,
            "VirtualNetwork": on.id,
            "VirtualNetworkName": on.name,
            "IPAddress": address,
            "PrefixLength": subnet.prefixlen,
            "MacAddress": "02-11-" + "-".join(f"{int(part):02X}" for part in address.split(".")),
            "IsRemoteEndpoint": True,
            "Policies": [],
        }
        for address in sorted(addresses - known)
        if ipaddress.IPv4Address(address) not in subnet
    ]


def _remote_id(node: str, address: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{address}.{node}")).upper()


def policy_lists(
    node: str, table: ServiceTable, endpoints: Iterable[Object], *, dsr: bool
) -> list[Object]:
    """Return kube-proxy's load balancers: one for each address and port of a Service.

    ``endpoints``: all endpoints that HNS shows, including remote endpoints.
    """
    by_address = {item["IPAddress"]: item["ID"] for item in endpoints}
    lists: list[Object] = []
    for port, address in (
        (served, ip)
        for served in table.ports
        if served.backends
        for ip in (served.cluster_ip, *served.external_ips)
        if ip
    ):
        policy: Object = {
            "Type": "ELB",
            "Protocol": PROTOCOLS[port.protocol],
            "ExternalPort": port.port,
            "InternalPort": port.backends[0].port,
            "VIPs": [address],
        }
        if dsr:
            policy["IsDSR"] = True
        if table.snat_local_pods_to is not None:
            policy["SourceVIP"] = table.snat_local_pods_to
        identity = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{port.name}.{address}.{node}")).upper()
        references = [
            f"/endpoints/{by_address[backend.address]}"
            for backend in port.backends
            if backend.address in by_address
        ]
        lists.append({"ID": identity, "Policies": [policy], "References": references})
    return lists


def hyphens(mac: str) -> str:
    """Return a MAC with hyphens, such as ``0E-2A-C0-A8-00-43``."""
    return mac.upper().replace(":", "-")
