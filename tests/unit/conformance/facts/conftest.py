# SPDX-License-Identifier: Apache-2.0
"""A fake API server with objects that a test defines, for tests of facts and preflight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from conformance.settings import load_timings
from tests.unit.conformance.kube import fake_api

LISTED = ("nodes", "ippools", "pods", "events", "daemonsets", "blockaffinities")


class World:
    """Objects by path, served as lists."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self.forbidden: set[str] = set()
        self.objects: dict[str, dict[str, Any]] = {}
        api.routes["GET /api(s/[^/]+)?/v[^/]+/.+"] = self.answer
        api.routes["POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"] = self.review
        self.denied: set[str] = set()

    def put(self, path: str, obj: dict[str, Any]) -> None:
        name = path.rpartition("/")[2]
        meta = {"name": name} | (
            {"namespace": path.split("/")[-3]} if "/namespaces/" in path else {}
        )
        self.objects[path] = {**obj, "metadata": {**meta, **obj.get("metadata", {})}}

    def answer(self, request: Any) -> Any:
        if any(part in request.path for part in self.forbidden):
            return fake_api.status(403, "Forbidden", "no right")
        if request.path in self.objects:
            return 200, self.objects[request.path]
        known = fake_api.discovery(request.path)
        if known:
            return known
        if request.path.rpartition("/")[2] in LISTED:
            return fake_api.listing(
                *(
                    one
                    for path, one in self.objects.items()
                    if path.rpartition("/")[0] == request.path
                )
            )
        return fake_api.status(404, "NotFound", "not found")

    def review(self, request: Any) -> Any:
        attributes = request.body["spec"]["resourceAttributes"]
        sub = f"/{attributes['subresource']}" if attributes.get("subresource") else ""
        return 201, {
            "status": {
                "allowed": f"{attributes['verb']} {attributes['resource']}{sub}" not in self.denied
            }
        }

    def node(self, name: str, os: str = "linux", kernel: str = "6.1.0", **more: Any) -> None:
        meta = {
            "labels": {"kubernetes.io/os": os, **more.pop("labels", {})},
            "annotations": more.pop("annotations", {}),
        }
        status = {
            "nodeInfo": {
                "operatingSystem": os,
                "kernelVersion": kernel,
                "osImage": "x",
                "containerRuntimeVersion": "c",
            },
            "conditions": [{"type": "Ready", "status": more.pop("ready", "True")}],
            "addresses": [
                {"type": "Hostname", "address": name},
                {"type": "InternalIP", "address": "192.0.2.7"},
            ],
        }
        self.put(f"/api/v1/nodes/{name}", {"metadata": meta, "spec": more, "status": status})

    def daemonset(
        self, path: str, *, args: list[str] | None = None, image: str = "i", **env: str
    ) -> None:
        container = {
            "name": "c",
            "image": image,
            "args": args or [],
            "env": [{"name": k, "value": v} for k, v in env.items()],
        }
        self.put(
            f"/apis/apps/v1/namespaces/{path.replace('/', '/daemonsets/')}",
            {"spec": {"template": {"spec": {"containers": [container]}}}},
        )

    def block(self, node: str, cidr: str) -> None:
        """Return a confirmed block of Calico's IPAM."""
        spec = {"node": node, "cidr": cidr, "state": "confirmed", "deleted": "false"}
        self.put(f"/apis/projectcalico.org/v3/blockaffinities/{node}", {"spec": spec})


@pytest.fixture
def world(kube: Kube) -> World:
    """Return the cluster's objects."""
    return World(kube.api)  # type: ignore[attr-defined]


@pytest.fixture
def kube(tmp_path: Path) -> Iterator[Kube]:
    """Provide a client of a fake API server; the client's attribute ``api`` is the server."""
    server = fake_api.FakeApi()
    server.start()
    run = replace(load_timings().run, api_connect=2.0, api_answer=2.0, api_retry=0.0)
    client = Kube(from_kubeconfig(fake_api.kubeconfig(tmp_path / "kubeconfig", server.url)), run)
    client.api = server  # type: ignore[attr-defined]
    yield client
    client.close()
    server.stop()
