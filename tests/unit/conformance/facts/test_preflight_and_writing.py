# SPDX-License-Identifier: Apache-2.0
"""Preflight reports all reasons at once; Calico objects are written through v3, by calicoctl, or
not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import ClusterUnusable, MissingCapability, UsageProblem
from conformance.facts.calico_api import CalicoApi
from conformance.facts.detect import detect
from conformance.facts.diagnostics_bundle import collect
from conformance.facts.preflight import preflight
from conformance.kube.changes import Changes
from conformance.kube.guard import GuardRefused
from conformance.kube.ownership import Ownership
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef
from conformance.model.facts import Fact

RUN = Ownership("r1", "gw0")
POLICY = {
    "apiVersion": "projectcalico.org/v3",
    "kind": "NetworkPolicy",
    "metadata": {"name": "p"},
    "spec": {},
}


def usable(world: Any) -> None:
    world.daemonset("calico-system/calico-node-windows")
    world.node("lin")
    world.node("win", "windows", "10.0.20348.1")
    world.put(
        "/apis/projectcalico.org/v3/clusterinformations/default",
        {"spec": {"calicoVersion": "v3.31.2"}},
    )


def test_a_hybrid_cluster_with_calico_and_all_rights_passes(kube: Any, world: Any) -> None:
    usable(world)
    preflight(kube, detect(kube))


def test_all_reasons_are_given_at_once(kube: Any, world: Any) -> None:
    world.node("lin")
    world.denied = {"list pods", "list namespaces"}
    world.api.routes = {"GET /apis": (200, {"groups": []}), **world.api.routes}
    with pytest.raises(ClusterUnusable) as caught:
        preflight(kube, detect(kube))
    text = "\n".join(caught.value.reasons)
    assert (
        "u may not list namespaces in all namespaces, "
        "which is needed to find leftovers of dead runs" in text
    )
    assert "u may not list pods in all namespaces" in text
    assert "the cluster has no Windows node (nodes: lin (linux))" in text
    assert "Calico was not found" in text
    assert len(caught.value.reasons) == 4


def test_nodes_that_cannot_take_pods_are_named(kube: Any, world: Any) -> None:
    usable(world)
    world.node("win", "windows", "10.0.20348.1", ready="False")
    with pytest.raises(ClusterUnusable, match=r"no Windows node can take pods \(win: not ready\)"):
        preflight(kube, detect(kube))


def test_openshift_is_refused_and_why(kube: Any, world: Any) -> None:
    usable(world)
    facts = replace(detect(kube), platform=Fact("openshift", "API group config.openshift.io"))
    with pytest.raises(ClusterUnusable) as caught:
        preflight(kube, facts)
    (reason,) = caught.value.reasons
    assert reason.startswith(
        "OpenShift is not supported: its SecurityContextConstraints refuse the suite's pods"
    )


def without_v3(world: Any) -> None:
    world.api.routes = {
        "GET /apis/projectcalico.org/v3": (404, {"kind": "Status"}),
        **world.api.routes,
    }


def test_v3_is_used_where_it_is_served(kube: Any, world: Any) -> None:
    path = f"/apis/projectcalico.org/v3/namespaces/{RUN.namespace}/networkpolicies"
    world.api.routes[f"POST {path}"] = (201, {})
    calico = CalicoApi(kube, Changes(kube, RUN))
    calico.apply(POLICY, "a test", namespace=RUN.namespace)
    assert calico.how == "projectcalico.org/v3"
    assert world.api.requests[-1].path == path


def test_without_v3_and_calicoctl_nothing_is_written_and_the_remedy_is_named(
    kube: Any, world: Any
) -> None:
    without_v3(world)
    calico = CalicoApi(kube, Changes(kube, RUN))
    with pytest.raises(
        MissingCapability, match=r"does not serve projectcalico.*set --calicoctl=PATH"
    ):
        calico.apply(POLICY, "a test", namespace=RUN.namespace)


def calicoctl(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "calicoctl"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_calicoctl_gets_the_signed_object_and_the_kubeconfig(
    kube: Any, world: Any, tmp_path: Path
) -> None:
    without_v3(world)
    program = calicoctl(
        tmp_path, f'echo "$KUBECONFIG $*" > {tmp_path}/args; cat > {tmp_path}/stdin'
    )
    changes = Changes(kube, RUN)
    calico = CalicoApi(kube, changes, calicoctl=program, kubeconfig=tmp_path / "k")
    calico.apply(POLICY, "a test", namespace=RUN.namespace)
    assert (tmp_path / "args").read_text() == f"{tmp_path}/k apply -f -\n"
    sent = json.loads((tmp_path / "stdin").read_text())
    assert sent["metadata"]["namespace"] == RUN.namespace
    assert sent["metadata"]["labels"]["calico-conformance/run"] == "r1"
    calico.delete(
        ObjectRef(
            api_version="projectcalico.org/v3",
            kind="NetworkPolicy",
            name="p",
            namespace=RUN.namespace,
        ),
        "x",
    )
    assert (
        (tmp_path / "args")
        .read_text()
        .endswith(f"delete NetworkPolicy p --skip-not-exists --namespace {RUN.namespace}\n")
    )
    assert len(changes.made) == 2


def test_what_calicoctl_refuses_is_refused_with_its_words(
    kube: Any, world: Any, tmp_path: Path
) -> None:
    without_v3(world)
    calico = CalicoApi(
        kube, Changes(kube, RUN), calicoctl=calicoctl(tmp_path, "echo 'bad selector' >&2; exit 1")
    )
    with pytest.raises(ApiRefused, match="bad selector"):
        calico.apply(POLICY, "a test", namespace=RUN.namespace)


def test_the_guard_holds_for_calicoctl_too(kube: Any, world: Any, tmp_path: Path) -> None:
    without_v3(world)
    calico = CalicoApi(kube, Changes(kube, RUN), calicoctl=calicoctl(tmp_path, "true"))
    wide = {**POLICY, "kind": "GlobalNetworkPolicy", "spec": {"selector": "all()"}}
    with pytest.raises(GuardRefused):
        calico.apply(wide, "a test")


def test_a_calicoctl_that_cannot_be_run_is_a_usage_problem(
    kube: Any, world: Any, tmp_path: Path
) -> None:
    with pytest.raises(UsageProblem, match="is not an executable file"):
        CalicoApi(kube, Changes(kube, RUN), calicoctl=tmp_path / "none")


def test_a_bundle_has_events_and_calico_logs_and_says_what_could_not_be_read(
    kube: Any, world: Any
) -> None:
    world.put("/api/v1/namespaces/n/events/e", {
        "type": "Warning", "reason": "Failed", "message": "no such image", "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": {"kind": "Pod", "name": "p"},
    })  # fmt: skip
    for name, node in (
        ("calico-node-windows-x", "win"),
        ("calico-node-y", "other"),
        ("other", "win"),
    ):
        pod = {"spec": {"nodeName": node, "containers": [{"name": "felix"}]}}
        world.put(f"/api/v1/namespaces/calico-system/pods/{name}", pod)
    world.api.routes = {
        "GET .*/calico-node-windows-x/log": (200, b"felix says hello"), **world.api.routes,
    }  # fmt: skip
    parts = collect(kube, namespaces=["n"], nodes=["win"])
    assert "Warning Failed Pod/p: no such image" in parts["events of n"]
    assert parts["log of calico-node-windows-x felix on win"] == "felix says hello"
    assert len(parts) == 2
    world.forbidden = {"events"}
    assert collect(kube, namespaces=["n"], nodes=[])["events of n"].startswith(
        "(could not be read: "
    )
