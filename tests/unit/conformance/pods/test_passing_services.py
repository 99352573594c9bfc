# SPDX-License-Identifier: Apache-2.0
"""Services that come in front of pods go again, in the midst of a test and at its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from conformance.model.change import ObjectRef
from conformance.pods.groups import Group
from conformance.pods.passing_services import PassingServices
from tests.unit.conformance.builders import a_workload

SERVER = a_workload("server")


class Cluster:
    """The names of the Services that are there."""

    def __init__(self) -> None:
        self.there: list[str] = []

    def apply(self, made: dict[str, Any], why: str, *, namespace: str) -> dict[str, Any]:
        self.there.append(made["metadata"]["name"])
        return made

    def delete(self, target: ObjectRef, why: str) -> None:
        self.there.remove(target.name)

    def read(self, made: dict[str, Any], backends: Group) -> SimpleNamespace:
        return SimpleNamespace(by_address=made["metadata"]["name"])


def test_services_that_came_go() -> None:
    cluster = Cluster()
    services = PassingServices(cluster, cluster)  # type: ignore[arg-type]
    assert [str(target) for target in services.come(Group([SERVER]))] == ["passing-1"]
    services.remove()
    assert cluster.there == []
