# SPDX-License-Identifier: Apache-2.0
"""Changes of the BGP configuration of a running lab through its API; each is reverted
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
    """Calico is told to advertise the cluster's Services."""
    api.merge(BGP_CONFIGURATION, {"spec": {"serviceClusterIPs": [{"cidr": "10.96.0.0/12"}]}})
    yield
    api.merge(BGP_CONFIGURATION, {"spec": {"serviceClusterIPs": None}})


@contextmanager
def mesh_off(api: Api) -> Iterator[None]:
    """Nodes peer with nobody by themselves."""
    api.merge(BGP_CONFIGURATION, {"spec": {"nodeToNodeMeshEnabled": False}})
    yield
    api.merge(BGP_CONFIGURATION, {"spec": {"nodeToNodeMeshEnabled": True}})


@contextmanager
def peer_beyond(api: Api) -> Iterator[None]:
    """All nodes are to peer with a router, which is there where the lab was told so."""
    with _bgp_peer(api, {"peerIP": "10.0.0.250", "asNumber": 64600}):
        yield


@contextmanager
def a_linux_reflector(api: Api) -> Iterator[None]:
    """One Linux node reflects, and all others peer with it alone."""
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
    """The node that all others peer with has lost the cluster id that makes it a reflector."""
    node, key = "/api/v1/nodes/control-plane", "projectcalico.org/RouteReflectorClusterID"
    api.merge(node, {"metadata": {"annotations": {key: None}}})
    yield
    api.merge(node, {"metadata": {"annotations": {key: "244.0.0.1"}}})


@contextmanager
def a_reflector_in_the_mesh(api: Api, name: str) -> Iterator[None]:
    """A Linux node is told to reflect, and nobody is told to peer with it; the mesh stays on."""
    node, key = f"/api/v1/nodes/{name}", "projectcalico.org/RouteReflectorClusterID"
    api.merge(node, {"metadata": {"annotations": {key: "244.0.0.1"}}})
    yield
    api.merge(node, {"metadata": {"annotations": {key: None}}})


@contextmanager
def a_windows_reflector(api: Api, name: str) -> Iterator[None]:
    """A Windows node is told to reflect, which it cannot."""
    node, key = f"/api/v1/nodes/{name}", "projectcalico.org/RouteReflectorClusterID"
    api.merge(node, {"metadata": {"annotations": {key: "244.0.0.1"}}})
    yield
    api.merge(node, {"metadata": {"annotations": {key: None}}})


@contextmanager
def host_local_is_declared(api: Api) -> Iterator[None]:
    """The Installation says that pods' addresses are host-local's, and they stay Calico's."""
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
