# SPDX-License-Identifier: Apache-2.0
"""Small complete objects for tests of the judge; keywords replace what a test is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conformance.expect.context import Context, Sink
from conformance.expect.engine.path import Path, Rule
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.decision import Decision
from conformance.model.endpoint import OS, Target, Workload
from conformance.model.facts import Fact, Facts, NodeFacts
from conformance.settings import Timings, load_timings

Obj = dict[str, Any]
"""An object of the Kubernetes API."""


def a_workload(name: str = "client", os: OS = "linux", /, **fields: Any) -> Workload:
    """Return a client pod on the first node of an operating system."""
    pod = Workload(
        namespace="ns",
        pod=name,
        container="main",
        uid=f"uid-{name}",
        role="client",
        os=os,
        node=f"{os}-1",
        address="192.168.0.5",
        node_address="10.0.0.11",
    )
    return replace(pod, **fields)


def a_path(
    timings: Timings,
    source: Workload,
    goal: Target,
    /,
    *,
    want: bool,
    kind: Kind = Kind.TCP,
    steady: bool = False,
) -> Path:
    """Return a path that the engine asks with the patience of its client's operating system."""
    patience = timings.of(source.os)
    attempt = Attempt(source=source, target=goal, kind=kind, give_up_after=patience.give_up(kind))
    rule = Rule.of(patience, [patience], patience.policy_effect)
    return Path(attempt, want, rule, steady=steady)


def an_expect(
    prober: Any, *claims: str, kept: list[Decision] | None = None, **context: Any
) -> Expect:
    """Return expectations about claims that ask a stand-in prober; keywords are their context."""
    if kept is not None:
        context["sink"] = Sink(kept)
    return Expect(prober, load_timings(), Context(claims=claims, **context), prober.clock)


def a_node(name: str = "linux-1", os: OS = "linux", /, **fields: Any) -> NodeFacts:
    """Return the facts of a Ready, schedulable worker node."""
    node = NodeFacts(
        name=name,
        os=os,
        address="10.0.0.11",
        ready=True,
        schedulable=True,
        control_plane=False,
        kernel_version="",
        os_image="",
        container_runtime="containerd://2.1.0",
        labels={"kubernetes.io/os": os, "kubernetes.io/hostname": name},
    )
    return replace(node, **fields)


def a_windows_node(name: str = "windows-1", build: int = 20348, /, **fields: Any) -> NodeFacts:
    """Return a Windows node with the label that Kubernetes gives to a build."""
    node = a_node(name, "windows", windows_build=(build, 1))
    labels = node.labels | {"node.kubernetes.io/windows-build": f"10.0.{build}"}
    return replace(node, **({"labels": labels} | fields))


def some_facts(*nodes: NodeFacts, **known: Any) -> Facts:
    """Return the facts of a lab with these nodes; what no keyword gives is unknown."""
    unknown: Any = Fact(None, "a test")
    facts = Facts(
        nodes=nodes,
        kubernetes_version=unknown,
        calico_version=unknown,
        mode=unknown,
        datastore=unknown,
        install=unknown,
        platform=unknown,
        calico_apis=unknown,
        cni=unknown,
        kube_proxy_mode=unknown,
        evidence="lab",
    )
    given: dict[str, Any] = {
        name: value if isinstance(value, Fact) else Fact(value, "a test")
        for name, value in known.items()
    }
    return replace(facts, **given)


def an_object(name: str, labels: Obj | None = None, /, *, namespace: str = "", **spec: Any) -> Obj:
    """Return an object as the API server lists it; keywords are its spec."""
    place = {"namespace": namespace} if namespace else {}
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels or {}}
    return {"metadata": meta | place, "spec": spec}


def a_pod(
    name: str = "p",
    node: str = "linux-1",
    /,
    *,
    owner: str = "ReplicaSet",
    ready: bool = True,
    spec: Obj | None = None,
    status: Obj | None = None,
    **metadata: Any,
) -> Obj:
    """Return a running pod as the API server lists it; keywords are its metadata."""
    owners = [{"kind": owner, "name": "owner", "controller": True}] if owner else []
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {}}
    return {
        "metadata": meta | ({"ownerReferences": owners} if owners else {}) | metadata,
        "spec": {"nodeName": node, "containers": []} | (spec or {}),
        "status": running | (status or {}),
    }
