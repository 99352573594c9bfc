# SPDX-License-Identifier: Apache-2.0
"""Clusters of ``clusters/*.yaml``, served by the fake API server: each has the objects of a real
installation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from conformance.settings import load_timings
from tests import fast_yaml
from tests.unit.conformance.facts.platforms import operator
from tests.unit.conformance.kube import fake_api

CLUSTERS = Path(__file__).parent / "clusters"
CALICO = {
    "clusterinformations": "ClusterInformation", "ippools": "IPPool", "felixconfigurations": "FelixConfiguration",
    "networkpolicies": "NetworkPolicy", "globalnetworkpolicies": "GlobalNetworkPolicy",
    "blockaffinities": "BlockAffinity", "bgpconfigurations": "BGPConfiguration", "ipamconfigs": "IPAMConfig",
}  # fmt: skip
KINDS = {
    "v1": fake_api.CORE | {"services": "Service"},
    "apps/v1": {
        "daemonsets": "DaemonSet",
        "deployments": "Deployment",
        "replicasets": "ReplicaSet",
    },
    "crd.projectcalico.org/v1": CALICO,
    "projectcalico.org/v3": CALICO,
    "operator.tigera.io/v1": {"installations": "Installation"},
    "config.openshift.io/v1": {"clusterversions": "ClusterVersion"},
}
NAMESPACED = {
    "Pod",
    "ConfigMap",
    "Event",
    "Secret",
    "Service",
    "DaemonSet",
    "Deployment",
    "ReplicaSet",
}


KEPT_OFF = {"calico", "type", "eks.amazonaws.com/compute-type"}
"""Labels by which Calico's pods avoid a node."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """The place where a part of a cluster was read."""

    what: str
    repository: str
    path: str
    commit: str
    sha256: str
    """The sum of the file at that commit."""
    licence: str


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The content of one file."""

    name: str
    title: str
    sources: tuple[Source, ...]
    kubernetes: str
    groups: tuple[str, ...]
    away: tuple[str, ...]
    """The API groups whose server answers 503."""
    outcome: dict[str, Any]
    """The outcome of a run there: the ``covered`` Windows nodes, or ``exit`` with the text in
    ``says``; ``felix``: for each Windows node, whether Felix should run there; ``left_out``: nodes
    without a decision."""
    expect: dict[str, Any]
    """Map each fact to its value; ``unknown``: no object shows it."""
    objects: dict[str, dict[str, Any]]
    """Objects by the path of the API that serves them."""


def clusters() -> tuple[Cluster, ...]:
    """Return all clusters, ordered by name."""
    return tuple(_read(path) for path in sorted(CLUSTERS.glob("*.yaml")))


def _read(path: Path) -> Cluster:
    plain = fast_yaml.load(path.read_text(encoding="utf-8"))
    return Cluster(
        name=path.stem,
        title=plain["title"],
        sources=tuple(Source(**source) for source in plain["sources"]),
        kubernetes=plain["kubernetes"],
        groups=tuple(plain["groups"]),
        away=tuple(plain.get("away", ())),
        outcome=plain["outcome"],
        expect=plain["expect"],
        objects=dict(_object(obj) for obj in _whole(plain["objects"])),
    )


def _whole(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file; in place of ``kind: ByTheOperator``, the objects that the
    operator renders from the file's Installation."""
    for plain in objects:
        if plain["kind"] == "ByTheOperator":
            installation = next(one for one in objects if one["kind"] == "Installation")
            nodes = {
                one["name"]: one["os"]
                for one in objects
                if one["kind"] == "Node" and not KEPT_OFF & one.get("labels", {}).keys()
            }
            yield from operator.rendered(installation, nodes)
        else:
            yield plain


def _object(plain: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return path and object; in the files, nodes, pods and workloads have a short form."""
    made = {"Node": _node, "Pod": _pod, "DaemonSet": _workload}.get(
        plain["kind"], lambda whole: whole
    )(plain)
    version, meta = made["apiVersion"], made["metadata"]
    plural = next(name for name, kind in KINDS[version].items() if kind == made["kind"])
    where = f"namespaces/{meta['namespace']}/" if made["kind"] in NAMESPACED else ""
    return f"/{'api' if version == 'v1' else 'apis'}/{version}/{where}{plural}/{meta['name']}", made


def _node(plain: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": plain["name"], "labels": {"kubernetes.io/os": plain["os"], **plain.get("labels", {})},
            "annotations": plain.get("annotations", {}),
        },
        "spec": {key: plain[key] for key in ("providerID", "taints", "podCIDR") if key in plain},
        "status": {
            "nodeInfo": {
                "operatingSystem": plain["os"], "kernelVersion": plain.get("kernel", "6.8.0"), "osImage": "",
                "containerRuntimeVersion": "containerd://1.7.27",
            },
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}],
        },
    }  # fmt: skip


def _pod(plain: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": plain["name"], "namespace": plain["namespace"],
            "labels": plain.get("labels", {"k8s-app": plain["name"].rpartition("-")[0]}),
        },
        "spec": {"nodeName": plain["node"], "containers": plain["containers"]},
        "status": {"phase": "Running"},
    }  # fmt: skip


def _workload(plain: dict[str, Any]) -> dict[str, Any]:
    init, containers = (
        [
            {**container, "env": _environment(container.get("env", {}))}
            for container in plain.get(kind, [])
        ]
        for kind in ("initContainers", "containers")
    )
    pod = {"initContainers": init, "containers": containers, **plain.get("pod", {})}
    return {
        "apiVersion": plain["apiVersion"], "kind": plain["kind"], "metadata": plain["metadata"],
        "spec": {"selector": plain.get("selector", {}), "template": {"spec": pod}},
    }  # fmt: skip


def _environment(plain: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "valueFrom": value}
        if isinstance(value, dict)
        else {"name": name, "value": value}
        for name, value in plain.items()
    ]


@contextmanager
def served(cluster: Cluster, scratch: Path) -> Iterator[Kube]:
    """Provide a client of an API server with this cluster's objects; ``scratch`` is a folder for
    the client's kubeconfig."""
    server = fake_api.FakeApi()
    server.routes["GET /.*"] = lambda request: _answer(cluster, request.path)
    server.routes["POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"] = (
        201,
        {"status": {"allowed": True}},
    )
    server.start()
    run = replace(load_timings().run, api_connect=2.0, api_answer=2.0, api_retry=0.0)
    client = Kube(from_kubeconfig(fake_api.kubeconfig(scratch / "kubeconfig", server.url)), run)
    try:
        yield client
    finally:
        client.close()
        server.stop()


def _answer(cluster: Cluster, path: str) -> Any:
    there = {"v1", "apps/v1", *cluster.groups}
    if path == "/version":
        return 200, {"gitVersion": cluster.kubernetes}
    if path == "/apis":
        groups = [
            {"name": item.partition("/")[0], "versions": [{"groupVersion": item}]}
            for item in there
            if "/" in item
        ]
        return 200, {"groups": groups}
    if any(path.startswith(f"/apis/{group}") for group in cluster.away):
        return fake_api.status(
            503, "ServiceUnavailable", "the server is currently unable to handle the request"
        )
    version = path.removeprefix("/apis/").removeprefix("/api/")
    if version in there:
        resources = [
            {"name": name, "kind": kind, "namespaced": kind in NAMESPACED}
            for name, kind in KINDS[version].items()
        ]
        return 200, {"resources": resources}
    if path in cluster.objects:
        return 200, cluster.objects[path]
    plural = path.rpartition("/")[2]
    if any(plural in KINDS[item] for item in there):
        return fake_api.listing(
            *(one for where, one in cluster.objects.items() if _in(where, path))
        )
    return fake_api.status(404, "NotFound", "not found")


def _in(where: str, listed: str) -> bool:
    """Return whether an object's path belongs to a list, of one namespace or of all."""
    folder = where.rpartition("/")[0]
    start, _, plural = listed.rpartition("/")
    return folder == listed or (
        folder.endswith(f"/{plural}") and folder.startswith(f"{start}/namespaces/")
    )
