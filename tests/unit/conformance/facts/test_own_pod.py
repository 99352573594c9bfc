# SPDX-License-Identifier: Apache-2.0
"""The run's path to the API server is shown not to cross the overlay, or the reason is named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.facts.own_pod import ADDRESS, NODE, own_pod
from conformance.kube.refused import ApiRefused
from tests.plugin.stand_in_cluster import facts

POOL = {"metadata": {"name": "pods"}, "spec": {"cidr": "192.168.0.0/16", "natOutgoing": True}}
IN_POD = {NODE: "linux-1", ADDRESS: "192.168.3.4"}


class Kube:
    """A cluster with these pools, endpoints of the API server, and address of it in pods."""

    def __init__(
        self, *pools: Any, ends: tuple[str, ...] = ("10.0.0.9",), server: str = "10.96.0.1"
    ) -> None:
        self.pools, self.ends = pools, ends
        self.access = SimpleNamespace(server=f"https://{server}:443")
        self.discovery = self
        self.served = ("crd.projectcalico.org/v1",)
        self.refused = ""

    def serves(self, api: str, kind: str) -> bool:
        return api in self.served

    def objects(self, api: str, kind: str, namespace: str = "", **_: str) -> list[Any]:
        if kind == self.refused:
            raise ApiRefused(403, "Forbidden", "may not list", f"GET {kind}")
        if kind == "IPPool":
            return list(self.pools)
        return [{"endpoints": [{"addresses": [end]} for end in self.ends]}]


def overlay(kube: Kube, environ: dict[str, str] = IN_POD) -> str:
    found: Any = kube
    return own_pod(found, facts(), environ).overlay


def test_a_pod_that_is_reached_by_its_nodes_address_crosses_no_overlay() -> None:
    assert overlay(Kube(POOL)) == ""
    assert own_pod(Kube(POOL), facts(), IN_POD).node == "linux-1"  # type: ignore[arg-type]


def test_a_pod_in_its_nodes_own_network_crosses_none_whatever_pools_there_are() -> None:
    assert overlay(Kube(), {ADDRESS: "10.0.0.1"}) == ""


NO_NAT = {"metadata": {"name": "pods"}, "spec": {"cidr": "192.168.0.0/16", "natOutgoing": False}}
UNSAID = {"metadata": {"name": "pods"}, "spec": {"cidr": "192.168.0.0/16"}}
OTHER = {"metadata": {"name": "other"}, "spec": {"cidr": "172.16.0.0/16", "natOutgoing": True}}


@pytest.mark.parametrize(
    ("kube", "environ", "why"),
    [
        (Kube(POOL), {NODE: "linux-1"}, "CALICO_CONFORMANCE_POD_IP is not set"),
        (Kube(OTHER), IN_POD, "192.168.3.4 is neither a node address nor in an IP pool"),
        (Kube(), IN_POD, "neither a node address nor in an IP pool"),
        (Kube(POOL, ends=()), IN_POD, "Service default/kubernetes has none"),
        (Kube(POOL, ends=("10.0.0.9", "192.168.7.7")), IN_POD, "192.168.7.7 is in IP pool pods"),
        (Kube(POOL, OTHER, ends=("172.16.1.1",)), IN_POD, "172.16.1.1 is in IP pool other"),
        (Kube(POOL, server="192.168.9.9"), IN_POD, "192.168.9.9 is in IP pool pods"),
        (Kube(POOL, server="api.example"), IN_POD, "which the cluster's DNS resolves"),
        (Kube(NO_NAT), IN_POD, "IP pool pods has no natOutgoing"),
        (Kube(UNSAID), IN_POD, "IP pool pods has no natOutgoing"),
    ],
)
def test_what_is_not_shown_is_named(kube: Kube, environ: dict[str, str], why: str) -> None:
    assert why in overlay(kube, environ)


@pytest.mark.parametrize("kind", ["IPPool", "EndpointSlice"])
def test_what_may_not_be_read_shows_nothing(kind: str) -> None:
    kube = Kube(POOL)
    kube.refused = kind
    assert overlay(kube).startswith("the pod's path could not be read: ")
