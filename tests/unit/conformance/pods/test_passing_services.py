# SPDX-License-Identifier: Apache-2.0
"""Services that come in front of pods go again, in the midst of a test and at its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from conformance.model.change import ObjectRef
from conformance.model.endpoint import Addressing, Target
from conformance.pods.groups import Group
from conformance.pods.passing_services import PassingServices
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
