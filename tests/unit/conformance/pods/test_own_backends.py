# SPDX-License-Identifier: Apache-2.0
"""Backends that a run sets itself: an EndpointSlice that names pods, and a readiness gate."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.model.change import Change
from conformance.pods.groups import Group
from conformance.pods.own_backends import OwnBackends
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload

POD = a_workload("server")


class Cluster:
    """Objects that were applied and deleted, and a pod that follows its gate, or does not."""

    dry_run = False

    def __init__(self, *, follows: bool = True) -> None:
        self.follows = follows
        self.ready = False
        self.there: dict[str, dict[str, Any]] = {}

    @property
    def kube(self) -> Cluster:
        return self

    def get(self, *_: object) -> dict[str, Any]:
        status = "True" if self.ready else "False"
        return {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": status}]}}

    def make(self, change: Change) -> None:
        assert (change.subresource, change.target.name) == ("status", POD.pod)
        body = change.body or {}
        (condition,) = body["status"]["conditions"]
        assert condition["type"] == "conformance/never"
        self.ready = condition["status"] == "True" if self.follows else self.ready

    def apply(self, made: dict[str, Any], why: str, *, namespace: str) -> dict[str, Any]:
        self.there[made["kind"]] = made
        return made

    def delete(self, target: Any, why: str) -> None:
        del self.there[target.kind]

    def read(self, made: dict[str, Any], backends: Group) -> SimpleNamespace:
        return SimpleNamespace(made=made)


def backends(cluster: Cluster) -> OwnBackends:
    plain = load_timings(lab=True)
    patient = replace(plain, linux=replace(plain.linux, pod_ready=0.05, poll_every=0.01))
    return OwnBackends(cluster, cluster, SimpleNamespace(), patient)  # type: ignore[arg-type]


def test_a_slice_names_the_pods_and_the_service_has_no_selector() -> None:
    cluster = Cluster()
    own = backends(cluster)
    own.without_selector(Group([POD]))
    named = cluster.there["EndpointSlice"]
    assert [one["addresses"] for one in named["endpoints"]] == [[POD.address]]
    service = cluster.there["Service"]
    assert named["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]
    assert "selector" not in service["spec"]
    own.remove()
    assert cluster.there == {}


def test_a_gate_is_set_and_the_pod_waited_for() -> None:
    cluster = Cluster()
    backends(cluster).become(POD, ready=True)
    assert cluster.ready
    backends(cluster).become(POD, ready=False)
    assert not cluster.ready


def test_a_kubelet_that_does_not_follow_is_no_verdict() -> None:
    with pytest.raises(EnvironmentBroken, match=r"did not become ready .* check the kubelet"):
        backends(Cluster(follows=False)).become(POD, ready=True)
