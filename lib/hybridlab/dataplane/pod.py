# SPDX-License-Identifier: Apache-2.0
"""A pod sandbox: a network namespace connected to its node by a veth, as Calico's CNI plugin does
it.

Inside: ``eth0`` with the pod's /32, a default route over a gateway address that no device needs to
have, and a permanent neighbour for it. On the node: ``caliXXXXXXXXXXX`` with Calico's fixed MAC,
the /32 route and a permanent neighbour. ARP is not used anywhere: the kernel's table is shared by
all namespaces of the machine and overflows at about a thousand entries.
"""

import errno
import hashlib
import os
from dataclasses import dataclass, field

from hybridlab.dataplane.model import PodSpec
from hybridlab.dataplane.node import Node
from hybridlab.kernel import namespaces, sysctl
from hybridlab.kernel.errors import KernelError
from hybridlab.kernel.rtnetlink import LO_INDEX, RouteSocket

HOST_MAC = "ee:ee:ee:ee:ee:ee"
_ETH0_INDEX = 2


@dataclass
class Pod:
    """A pod with an interface of its own."""

    spec: PodSpec
    address: str
    netns: int
    """A file descriptor; the sandbox registry owns it once it is registered."""
    interface: str
    """Name of the host-side interface."""
    index: int
    mac: str
    extra: list[str] = field(default_factory=list)
    """Addresses in addition to the pod's own."""


def interface_name(namespace: str, name: str, prefix: str) -> str:
    """Return the host-side interface's name as Calico derives it from a pod's namespace and
    name."""
    return prefix + hashlib.sha1(f"{namespace}.{name}".encode()).hexdigest()[:11]


def add_pod(node: Node, spec: PodSpec, address: str) -> Pod:
    """Create the namespace and connect it; after a failure nothing is left. It takes 1 to 2 ms."""
    netns = namespaces.new_netns()
    try:
        pod = Pod(
            spec=spec,
            address=address,
            netns=netns,
            interface=interface_name(spec.namespace, spec.name, node.spec.pod_prefix),
            index=node.new_index(),
            mac=spec.port.mac
            or "0a:58:" + ":".join(f"{int(part):02x}" for part in address.split(".")),
        )
        _add_veth(node, pod)
        with namespaces.entered(netns):
            sysctl.write("net/ipv6/conf/all/disable_ipv6", 1, optional=True)
            route = RouteSocket()
        with route:
            route.set_link(LO_INDEX, what="lo")
            route.set_link(_ETH0_INDEX, what="eth0")
            route.add_address(_ETH0_INDEX, address, 32)
            route.set_neighbour(_ETH0_INDEX, spec.port.gateway, HOST_MAC)
            route.set_route(f"{spec.port.gateway}/32", index=_ETH0_INDEX)
            route.set_route("0.0.0.0/0", via=spec.port.gateway, index=_ETH0_INDEX)
            route.flush()
        node.add_endpoint(
            spec.id, pod.interface, address, pod.mac, open_at_first=spec.port.initial == "open"
        )
        node.add_pod_route(pod.index, address, pod.mac)
    except BaseException:
        node.remove_endpoint(spec.id)
        os.close(netns)
        raise
    return pod


def _add_veth(node: Node, pod: Pod) -> None:
    def add() -> None:
        node.route.add_veth(
            pod.interface,
            mac=HOST_MAC,
            mtu=pod.spec.port.mtu,
            index=pod.index,
            peer="eth0",
            peer_index=_ETH0_INDEX,
            peer_mac=pod.mac,
            peer_netns=pod.netns,
        )
        node.route.flush()

    try:
        add()
    except KernelError as error:
        if error.errno != errno.EEXIST:
            raise
        # A pod of the same name was removed a moment ago and the kernel has not finished with it.
        node.route.delete_link_named(pod.interface, tolerated=frozenset({errno.ENODEV}))
        node.route.flush()
        add()


def remove_pod(node: Node, pod: Pod) -> None:
    """Remove the pod's addresses and policy from the node at once.

    The registry closes the namespace; the kernel then removes the rest.
    """
    for address in (pod.address, *pod.extra):
        node.remove_pod_route(pod.index, address)
    node.remove_endpoint(pod.spec.id)


def cut_off_pod(node: Node, pod: Pod) -> None:
    """Delete the pod's interface, and with it every route to the pod; the sandbox stays."""
    remove_pod(node, pod)
    node.route.delete_link_named(pod.interface, tolerated=frozenset({errno.ENODEV}))
    node.route.flush()


def add_address(node: Node, pod: Pod, address: str) -> None:
    """Add an address in the pod, and the node's route to it."""
    with namespaces.entered(pod.netns):
        route = RouteSocket()
    with route:
        route.add_address(_ETH0_INDEX, address, 32)
        route.flush()
    node.add_pod_route(pod.index, address, pod.mac)
    pod.extra.append(address)


def remove_address(node: Node, pod: Pod, address: str) -> None:
    """Remove an added address again."""
    node.remove_pod_route(pod.index, address)
    with namespaces.entered(pod.netns):
        route = RouteSocket()
    with route:
        route.delete_address(_ETH0_INDEX, address, 32)
        route.flush()
    pod.extra.remove(address)
