# SPDX-License-Identifier: Apache-2.0
"""Services that a test creates for its pods are removed again, in the middle of the test and at
its end."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import MissingCapability
from conformance.model.change import ObjectRef
from conformance.model.endpoint import Addressing, Target
from conformance.pods.groups import Group
from conformance.pods.passing_services import LoadBalancers, PassingServices
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload

SERVER = a_workload("server")


class Cluster:
    """The names of the Services that are there."""

    def __init__(self) -> None:
        self.there: list[str] = []
        self.ports: list[tuple[int, int | str]] = []

    def apply(self, made: dict[str, Any], why: str, *, namespace: str) -> dict[str, Any]:
        self.there.append(made["metadata"]["name"])
        self.ports = [(port["port"], port["targetPort"]) for port in made["spec"]["ports"]]
        return made

    def delete(self, target: ObjectRef, why: str) -> None:
        self.there.remove(target.name)

    def read(self, made: dict[str, Any], backends: Group) -> SimpleNamespace:
        name = made["metadata"]["name"]
        way = Addressing.CLUSTER_IP
        return SimpleNamespace(
            by_address=Target(host="10.96.0.9", port=80, protocol="tcp", path=way, name=name)
        )


def test_services_that_came_go() -> None:
    cluster = Cluster()
    services = PassingServices(cluster, cluster)  # type: ignore[arg-type]
    assert [target.name for target in services.come(Group([SERVER]))] == ["passing-1"]
    services.remove()
    assert cluster.there == []


def test_an_edited_service_leads_to_another_port_of_its_pods_alone() -> None:
    cluster = Cluster()
    services = PassingServices(cluster, cluster)  # type: ignore[arg-type]
    (before,) = services.come(Group([SERVER]))
    assert (before.backend_port, cluster.ports) == (8080, [(80, 8080), (80, 8080), (81, "by-name")])
    after = services.lead_to_another_port(Group([SERVER]))
    assert (after.backend_port, cluster.ports) == (8081, [(80, 8081), (80, 8081), (81, "by-name")])


class Asked:
    """A cluster whose load balancer answers with these entries, one more at each look."""

    def __init__(self, *answers: list[dict[str, str]]) -> None:
        self.answers = list(answers)
        self.dry_run = False
        self.kube = self

    def find(self, *_: object) -> dict[str, Any]:
        first = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {"status": {"loadBalancer": {"ingress": first}}}


def load_balancers(asked: Asked, seconds: float = 0.05) -> LoadBalancers:
    cluster = Cluster()
    asked.apply = cluster.apply  # type: ignore[attr-defined]
    timings = replace(load_timings(lab=True).run, load_balancer=seconds, pod_status=0.01)
    return LoadBalancers(asked, cluster, SimpleNamespace(run=timings))  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", [{"ip": "198.18.0.9"}, {"hostname": "lb.example.com"}])
def test_a_load_balancers_address_or_name_is_asked_once_it_is_given(entry: dict[str, str]) -> None:
    front = load_balancers(Asked([], [entry])).over(Group([SERVER]))
    assert front.host in entry.values()
    assert front.name == "the load balancer of passing-1"


def test_a_service_to_which_no_load_balancer_gives_an_address_is_not_decided() -> None:
    with pytest.raises(MissingCapability, match="no load balancer gave passing-1 an address"):
        load_balancers(Asked([])).over(Group([SERVER]))


def test_a_dry_run_waits_for_no_load_balancer() -> None:
    asked = Asked([])
    asked.dry_run = True
    began = time.monotonic()
    assert load_balancers(asked, seconds=10.0).over(Group([SERVER])).host == "10.96.0.9"
    assert time.monotonic() - began < 10.0
