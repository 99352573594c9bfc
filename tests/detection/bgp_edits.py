# SPDX-License-Identifier: Apache-2.0
"""Changes of the BGP configuration of a running lab, through its API; each change is undone
afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.detection.cluster_edits import INSTALLATION, no_operator
from tests.detection.lab_api import Api

BGP_CONFIGURATION = "/apis/projectcalico.org/v3/bgpconfigurations/default"
BGP_PEERS = "/apis/projectcalico.org/v3/bgppeers"


@contextmanager
def services_advertised(api: Api) -> Iterator[None]:
    """Tell Calico to advertise the cluster's Services."""
    api.merge(BGP_CONFIGURATION, {"spec": {"serviceClusterIPs": [{"cidr": "10.96.0.0/12"}]}})
    yield
    api.merge(BGP_CONFIGURATION, {"spec": {"serviceClusterIPs": None}})


@contextmanager
def mesh_off(api: Api) -> Iterator[None]:
    """Turn the mesh off: nodes no longer peer with each other by themselves."""
    api.merge(BGP_CONFIGURATION, {"spec": {"nodeToNodeMeshEnabled": False}})
    yield
    api.merge(BGP_CONFIGURATION, {"spec": {"nodeToNodeMeshEnabled": True}})


@contextmanager
def peer_beyond(api: Api) -> Iterator[None]:
    """Make all nodes peer with a router, which exists only if the lab was started with it."""
    with _bgp_peer(api, {"peerIP": "10.0.0.250", "asNumber": 64600}):
        yield


@contextmanager
def a_linux_reflector(api: Api) -> Iterator[None]:
    """Make one Linux node a route reflector with which all other nodes peer, and with no other
    node."""
    node, key = "/api/v1/nodes/linux-1", "projectcalico.org/RouteReflectorClusterID"
    api.merge(
        node,
        {"metadata": {"annotations": {key: "244.0.0.1"}, "labels": {"route-reflector": "true"}}},
    )
    with (
        _bgp_peer(api, {"nodeSelector": "all()", "peerSelector": "route-reflector == 'true'"}),
        mesh_off(api),
    ):
        yield
    api.merge(node, {"metadata": {"annotations": {key: None}, "labels": {"route-reflector": None}}})


@contextmanager
def reflector_without_its_id(api: Api) -> Iterator[None]:
    """Take the cluster id, which makes a node a reflector, away from the node with which all others
    peer."""
    node, key = "/api/v1/nodes/control-plane", "projectcalico.org/RouteReflectorClusterID"
    api.merge(node, {"metadata": {"annotations": {key: None}}})
    yield
    api.merge(node, {"metadata": {"annotations": {key: "244.0.0.1"}}})


@contextmanager
def a_reflector_in_the_mesh(api: Api, name: str) -> Iterator[None]:
    """Make a Linux node a route reflector with which no node peers in addition; the mesh stays
    on."""
    node, key = f"/api/v1/nodes/{name}", "projectcalico.org/RouteReflectorClusterID"
    api.merge(node, {"metadata": {"annotations": {key: "244.0.0.1"}}})
    yield
    api.merge(node, {"metadata": {"annotations": {key: None}}})


@contextmanager
def a_windows_reflector(api: Api, name: str) -> Iterator[None]:
    """Make a Windows node a route reflector, which Windows does not support."""
    node, key = f"/api/v1/nodes/{name}", "projectcalico.org/RouteReflectorClusterID"
    api.merge(node, {"metadata": {"annotations": {key: "244.0.0.1"}}})
    yield
    api.merge(node, {"metadata": {"annotations": {key: None}}})


@contextmanager
def host_local_is_declared(api: Api) -> Iterator[None]:
    """Declare host-local in the Installation, although pods still get Calico's addresses."""
    with no_operator(api):
        api.merge(INSTALLATION, {"spec": {"cni": {"ipam": {"type": "HostLocal"}}}})
        yield
        api.merge(INSTALLATION, {"spec": {"cni": {"ipam": {"type": "Calico"}}}})


@contextmanager
def _bgp_peer(api: Api, spec: Any) -> Iterator[None]:
    head = {
        "apiVersion": "projectcalico.org/v3",
        "kind": "BGPPeer",
        "metadata": {"name": "made-by-detection"},
    }
    api("POST", BGP_PEERS, {**head, "spec": spec})
    yield
    api("DELETE", f"{BGP_PEERS}/made-by-detection")


EDITS: dict[str, Callable[..., contextlib.AbstractContextManager[None]]] = {
    item.__name__: item
    for item in (
        services_advertised,
        mesh_off,
        peer_beyond,
        host_local_is_declared,
        a_linux_reflector,
        reflector_without_its_id,
        a_reflector_in_the_mesh,
        a_windows_reflector,
    )
}
