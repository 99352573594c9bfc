# SPDX-License-Identifier: Apache-2.0
"""HNS compared with the API: which deviations are found, by identity, and that two reads have to
show them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.facts.networks import hns_health
from conformance.facts.networks.hns_health import HnsHealth, Look
from conformance.model.host import HnsEndpoint, HnsNetwork, LoadBalancer
from conformance.settings import load_timings
from tests.unit.conformance.expect.stand_ins import Clock

Obj = dict[str, Any]
SANDBOX = "cni.projectcalico.org/containerID"


def endpoint(name: str, address: str, **more: Any) -> HnsEndpoint:
    """An endpoint on the pods' network."""
    fields = {"id": name.upper(), "mac": "", "network": "N", **more}
    return HnsEndpoint(name=f"{name}_Calico", address=address, **fields)


def pod(name: str, address: str, sandbox: str = "", **meta: Any) -> Obj:
    """A ready pod of the run."""
    annotations = {SANDBOX: sandbox} if sandbox else {}
    return {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": name,
            "annotations": annotations,
            **meta,
        },
        "spec": {},
        "status": {
            "podIPs": [{"ip": address}] if address else [],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def service(name: str = "web", **spec: Any) -> Obj:
    """A Service with a cluster address."""
    return {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "resourceVersion": "1",
            "labels": spec.pop("labels", {}),
        },
        "spec": {
            "clusterIPs": ["10.96.0.7"],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
            **spec,
        },
    }


def slice_(*addresses: str, unready: Sequence[str] = (), **more: Any) -> Obj:
    """Its EndpointSlice."""
    ends = [{"addresses": [one], "conditions": {"ready": True}, **more} for one in addresses]
    ends += [{"addresses": [one], "conditions": {"ready": False}} for one in unready]
    return {
        "metadata": {
            "namespace": "ns",
            "name": "web-1",
            "resourceVersion": "2",
            "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": ends,
    }


A = endpoint("a", "192.168.1.3")
REMOTE = endpoint("r", "192.168.0.3", is_remote=True)
BALANCER = LoadBalancer(addresses=("10.96.0.7",), protocol=6, port=80, endpoints=("A", "R"))


def test_two_local_endpoints_of_one_address_are_found_and_a_remote_one_is_none() -> None:
    twin = endpoint("b", "192.168.1.3")
    stale = endpoint("c", "192.168.1.3", is_remote=True)
    assert list(hns_health.shared_addresses(Look([A, stale])).values()) == []
    found = hns_health.shared_addresses(Look([A, twin, stale]))
    assert list(found.values()) == ["192.168.1.3 of a_Calico and b_Calico"]


@pytest.mark.parametrize(
    ("there", "left"),
    [
        (pod("p", "192.168.1.3", "a"), []),
        (pod("p", "192.168.1.3"), []),
        (pod("p", "", "a"), []),
        (pod("p", "192.168.1.3", "other"), ["a_Calico with 192.168.1.3"]),
        (pod("p", "192.168.1.4", "a"), ["a_Calico with 192.168.1.3"]),
        (pod("p", "192.168.1.4"), ["a_Calico with 192.168.1.3"]),
    ],
    ids=["sandbox and address", "address", "no address yet", "sandbox", "both", "other"],
)
def test_an_endpoint_is_a_pods_by_sandbox_and_address(there: Obj, left: list[str]) -> None:
    found = hns_health.endpoints_of_nobody(Look([A, REMOTE], [there]))
    assert list(found.values()) == left
    without = hns_health.pods_without_endpoint(Look([A, REMOTE], [there]), lambda pod: True)
    assert list(without.values()) == (["ns/p"] if left else [])


def test_pods_of_others_that_start_or_end_need_no_endpoint() -> None:
    ending = pod("p", "192.168.1.9", deletionTimestamp="now")
    starting = pod("q", "192.168.1.9")
    starting["status"]["conditions"] = []
    look = Look([], [ending, starting])
    assert hns_health.pods_without_endpoint(look, lambda pod: True) == {}
    assert hns_health.pods_without_endpoint(Look([], [pod("r", "1")]), lambda pod: False) == {}


def balanced(*services: Obj, **more: Any) -> list[str]:
    """What is wrong with the load balancers of a node."""
    slices = more.pop("slices", [slice_("192.168.1.3", "192.168.0.3", unready=["192.168.0.4"])])
    fields = {"balancers": [BALANCER], **more}
    look = Look([A, REMOTE], services=services, slices=slices, **fields)
    return list(hns_health.wrong_balancers(look).values())


def test_a_service_has_its_load_balancer_with_its_ready_members() -> None:
    web = "Service ns/web, 10.96.0.7:80/TCP"
    assert balanced(service()) == []
    assert balanced(service(), balancers=[]) == [f"{web}: no load balancer"]
    fewer = LoadBalancer(addresses=("10.96.0.7",), protocol=6, port=80, endpoints=("A",))
    assert balanced(service(), balancers=[fewer]) == [
        f"{web}: members 192.168.1.3 instead of 192.168.0.3, 192.168.1.3"
    ]
    udp = LoadBalancer(addresses=("10.96.0.7",), protocol=17, port=80, endpoints=("A", "R"))
    assert balanced(service(), balancers=[udp]) == [f"{web}: no load balancer"]


@pytest.mark.parametrize(
    "spec",
    [
        {"clusterIPs": ["None"]},
        {"type": "ExternalName", "clusterIPs": []},
        {"internalTrafficPolicy": "Local"},
        {"externalTrafficPolicy": "Local"},
        {"publishNotReadyAddresses": True},
        {"labels": {"service.kubernetes.io/service-proxy-name": "other"}},
        {"ports": [{"name": "http", "port": 80, "protocol": "SCTP"}]},
        {"ports": [{"name": "other", "port": 80}]},
        {"clusterIPs": ["fd00::7"]},
    ],
)
def test_services_that_kube_proxy_serves_otherwise_are_left_out(spec: Obj) -> None:
    assert balanced(service(**spec), balancers=[]) == []


def test_backends_of_some_zones_or_of_the_host_are_left_out() -> None:
    hinted = slice_("192.168.1.3", hints={"forZones": [{"name": "a"}]})
    assert balanced(service(), slices=[hinted], balancers=[]) == []
    assert balanced(service(), slices=[slice_("10.0.0.21")], hosts=["10.0.0.21"]) == []
    assert balanced(service(), slices=[slice_(unready=["192.168.0.3"])], balancers=[]) == []


def test_what_is_left_of_a_service_without_endpoints_is_a_note() -> None:
    look = Look([A], balancers=[BALANCER], services=[service()], slices=[slice_()])
    assert hns_health.leftovers(look) == ["10.96.0.7:80"]
    assert hns_health.wrong_balancers(look) == {}
    assert hns_health.leftovers(look._replace(slices=[slice_("192.168.1.3")])) == []


class Hosts:
    """A node's HNS, look by look."""

    def __init__(self, *looks: list[HnsEndpoint]) -> None:
        self.looks = list(looks)
        self.taken = 0
        self.network = "Calico"

    def hns_networks(self, node: str) -> list[HnsNetwork]:
        pods = HnsNetwork(id="N", name=self.network, type="Overlay", pods=True)
        return [pods, HnsNetwork(id="nat", name="nat", type="nat")]

    def hns_endpoints(self, node: str, *, remote: bool = False) -> list[HnsEndpoint]:
        assert remote
        self.taken += 1
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def load_balancers(self, node: str) -> list[LoadBalancer]:
        return []


def health(hosts: Hosts, **objects: list[Obj]) -> HnsHealth:
    """The readings of a cluster with these objects by kind."""
    kube = SimpleNamespace(
        objects=lambda api, kind, **_: objects.get(kind, []),
        get=lambda *_: {"status": {"addresses": []}},
    )
    run = SimpleNamespace(owns=lambda obj: True)
    changes: Any = SimpleNamespace(kube=kube, run=run)
    either: Any = hosts
    return HnsHealth(changes, either, (), load_timings(), Clock())


TWIN = endpoint("b", "192.168.1.3")
THIRD = endpoint("c", "192.168.1.3")


@pytest.mark.parametrize(
    ("looks", "found", "taken"),
    [
        ([[A]], (), 1),
        ([[A, TWIN], [A]], (), 2),
        ([[A, TWIN], [A, THIRD]], (), 2),
        ([[A, TWIN]], ("192.168.1.3 of a_Calico and b_Calico",), 2),
    ],
)
def test_a_deviation_counts_if_two_looks_show_the_same(
    looks: list[list[HnsEndpoint]], found: tuple[str, ...], taken: int
) -> None:
    hosts = Hosts(*looks)
    (fact,) = health(hosts).shared_addresses("w").values()
    assert fact.value == found
    assert hosts.taken == taken
    assert f"reads: {taken} within {30 * (taken - 1)} s" in fact.source


@pytest.mark.parametrize(
    ("network", "name"), [("Calico", "Calico_ep"), ("cbr0", "cbr0_ep"), ("cbr0", "cbr0")]
)
def test_the_hosts_own_endpoint_and_other_networks_are_no_pods(network: str, name: str) -> None:
    own = HnsEndpoint(id="E", name=name, address="192.168.1.2", mac="", network="N")
    hosts = Hosts([A, own, endpoint("d", "172.16.0.2", network="nat")])
    hosts.network = network
    found = health(hosts, Pod=[pod("p", "192.168.1.3", "a")]).endpoints_of_nobody("w")
    assert [fact.value for fact in found.values()] == [(), ()]


def test_a_load_balancer_is_looked_for_three_times_while_its_service_stays_the_same() -> None:
    hosts = Hosts([A, REMOTE])
    kept = health(hosts, Service=[service()], EndpointSlice=[slice_("192.168.1.3")])
    (fact,) = kept.services_without_balancer("w").values()
    assert fact.value == ("Service ns/web, 10.96.0.7:80/TCP: no load balancer",)
    assert hosts.taken == 3
    versions = iter("123456789")

    class Changing(dict[str, Any]):
        """Metadata with another version each time."""

        def get(self, key: str, default: Any = None) -> Any:
            return next(versions) if key == "resourceVersion" else super().get(key, default)

    moving = service()
    moving["metadata"] = Changing(moving["metadata"])
    hosts = Hosts([A, REMOTE])
    kept = health(hosts, Service=[moving], EndpointSlice=[slice_("192.168.1.3")])
    (fact,) = kept.services_without_balancer("w").values()
    assert fact.value == ()
    assert hosts.taken == 2


def test_what_pods_left_behind_is_told_with_its_node() -> None:
    left = health(Hosts([A, REMOTE])).left_behind("w")
    assert (left.value, left.source.partition(":")[0]) == (
        True,
        "pod endpoints in HNS on node w that belong to no pod",
    )
    assert health(Hosts([A]), Pod=[pod("p", "192.168.1.3")]).left_behind("w").value is False
