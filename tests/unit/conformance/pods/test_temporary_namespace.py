# SPDX-License-Identifier: Apache-2.0
"""A namespace that stays after its deletion is told with what is still in it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, Nonconformance
from conformance.pods.temporary_namespace import TemporaryNamespace

V3, KUBERNETES = "projectcalico.org/v3", "networking.k8s.io/v1"


class Cluster:
    """A cluster with these kinds of objects in the namespace."""

    def __init__(
        self, *there: str, v3: bool = True, calicoctl: bool = False, stays: str = ""
    ) -> None:
        self.there, self.v3, self.stays = there, v3, stays
        self.namespace = "run-gw0"
        self.kube = self.discovery = self.changes = self
        timings = SimpleNamespace(windows=SimpleNamespace(delete=60.0))
        self.settings = SimpleNamespace(calicoctl="there" if calicoctl else "", timings=timings)

    def serves(self, api: str, kind: str) -> bool:
        return self.v3

    def objects(self, api: str, kind: str, namespace: str) -> list[str]:
        assert namespace == "run-gw0-temporary"
        return ["x"] if f"{kind} {api}" in self.there or kind in self.there else []

    def find(self, api: str, kind: str, name: str) -> dict[str, Any] | None:
        return {} | {"metadata": {}} if "Namespace" in self.there else None

    def delete_and_wait(self, target: Any, why: str, *, within: float) -> None:
        assert (target.kind, target.name, within) == ("Namespace", "run-gw0-temporary", 60.0)
        if self.stays:
            raise EnvironmentBroken(self.stays)


def temporary(cluster: Cluster) -> TemporaryNamespace:
    pods: Any = cluster
    placement: Any = None
    return TemporaryNamespace(pods, placement)


@pytest.mark.parametrize(
    ("cluster", "policies"),
    [
        (Cluster(), V3),
        (Cluster(v3=False), KUBERNETES),
        (Cluster(v3=False, calicoctl=True), ""),
        (Cluster(calicoctl=True), V3),
    ],
)
def test_its_policy_is_of_the_api_that_shows_it(cluster: Cluster, policies: str) -> None:
    found = temporary(cluster).contents()
    assert set(found) - {"the namespace", "Pod objects", "Deployment objects"} == (
        {"NetworkPolicy objects"} if policies else set()
    )
    if policies:
        assert found["NetworkPolicy objects"].source == f"list in run-gw0-temporary ({policies})"


def test_what_is_there_and_what_is_gone_is_told_by_kind() -> None:
    found = temporary(Cluster("Namespace", "Pod")).contents()
    assert {name: fact.value for name, fact in found.items()} == {
        "the namespace": "there",
        "Pod objects": "there",
        "Deployment objects": "gone",
        "NetworkPolicy objects": "gone",
    }


@pytest.mark.parametrize(
    ("there", "left"),
    [((), "nothing"), (("Namespace", "Pod"), "the namespace, Pod objects")],
)
def test_a_namespace_that_stays_is_the_cluster_s_fault(there: tuple[str, ...], left: str) -> None:
    cluster = Cluster(*there, stays="Namespace stays for 60 s\n  status  Terminating")
    with pytest.raises(Nonconformance) as caught:
        temporary(cluster).delete(because="a namespace goes with its pods")
    assert str(caught.value).splitlines() == [
        f"Namespace stays for 60 s; still there: {left}",
        "  status  Terminating",
        "  because  a namespace goes with its pods",
    ]
    temporary(Cluster()).delete(because="-")
