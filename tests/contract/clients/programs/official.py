# SPDX-License-Identifier: Apache-2.0
"""The official Python client, ``kubernetes``, from version 24 on: ``python official.py KUBECONFIG NAMESPACE``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from kubernetes import client as any_client
from kubernetes import config as any_config
from kubernetes import stream as any_stream
from kubernetes import watch as any_watch

from tests.contract.clients.programs.steps import OWN_FAULT, report, step

config: Any = any_config
client: Any = any_client  # only the newest versions have types
watch: Any = any_watch
stream: Any = any_stream.stream
portforward: Any = any_stream.portforward

LABELS = {"app": "official"}
APPLY = "application/apply-patch+yaml"


class Program:
    """The steps that are tried, all in one namespace."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        config.load_kube_config(kubeconfig)
        self.api = client.ApiClient()
        known = client.Configuration.get_default_copy()
        if not known.auth_settings():  # 36.0.0 sends no token
            report(
                "sends its token",
                OWN_FAULT,
                "auth_settings() is empty; the header is set by hand for what follows",
            )
            self.api.set_default_header("authorization", known.api_key["authorization"])
        self.core, self.apps = client.CoreV1Api(self.api), client.AppsV1Api(self.api)
        self.batch = client.BatchV1Api(self.api)
        self.namespace, self.pod = namespace, ""

    def make(self) -> None:
        self.core.create_namespace({"metadata": {"name": self.namespace}})
        containers = [{"name": "c", "image": "busybox:1.36", "command": ["sleep", "3600"]}]
        template = {"metadata": {"labels": LABELS}, "spec": {"containers": containers}}
        spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
        self.apps.create_namespaced_deployment(
            self.namespace, {"metadata": {"name": "d"}, "spec": spec}
        )

    def watch(self) -> None:
        events = 0
        for event in watch.Watch().stream(
            self.core.list_namespaced_pod,
            self.namespace,
            label_selector="app=official",
            timeout_seconds=20,
        ):
            events += 1
            found = event["object"]
            if any(
                item.type == "Ready" and item.status == "True"
                for item in found.status.conditions or ()
            ):
                self.pod = found.metadata.name
                break
        assert events, "a watch ended at once with 0 events"
        assert self.pod, f"no pod was ready in 20 s, {events} events"

    def watch_ends(self) -> None:
        began = time.monotonic()
        for _ in watch.Watch().stream(
            self.core.list_namespaced_secret, self.namespace, timeout_seconds=2
        ):
            pass
        assert time.monotonic() - began > 1.5, "a watch of 2 s over nothing ended at once"

    def apply(self) -> None:
        for manager, value in (("one", "1"), ("two", "2")):
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "applied"},
                "data": {"a": value},
            }
            found = self._apply(body, manager)
            assert found == {"a": value}, found

    def _apply(self, body: dict[str, Any], manager: str) -> Any:
        patch = self.core.patch_namespaced_config_map
        more = {"field_manager": manager, "force": True}
        try:
            return patch("applied", self.namespace, body, _content_type=APPLY, **more).data
        except TypeError:  # versions up to 31 cannot choose a content type
            return self._apply_by_hand(body, manager)

    def _apply_by_hand(self, body: dict[str, Any], manager: str) -> Any:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/applied"
        about: dict[str, Any] = {
            "query_params": [("fieldManager", manager), ("force", True)],
            "header_params": {"Content-Type": APPLY, "Accept": "application/json"},
            "auth_settings": ["BearerToken"],
            "response_type": "object",
        }
        try:
            return self.api.call_api(path, "PATCH", body=body, **about)[0]["data"]
        except client.ApiException as error:
            if error.status:
                raise
        return self.api.call_api(path, "PATCH", body=json.dumps(body), **about)[0][
            "data"
        ]  # 24.2 takes only text

    def orphan(self) -> None:
        self.apps.delete_namespaced_deployment("d", self.namespace, orphan_dependents=True)
        time.sleep(1.5)
        sets = self.apps.list_namespaced_replica_set(self.namespace).items
        assert len(sets) == 1, (
            "the ReplicaSet of a Deployment deleted with orphan_dependents=True is gone"
        )

    def exec(self) -> None:
        call = self.core.connect_get_namespaced_pod_exec
        said = stream(
            call, self.pod, self.namespace, command=["echo", "hi"], stdout=True, stderr=True
        )
        assert said.strip() == "hi", repr(said)

    def logs(self) -> None:
        found = self.core.read_namespaced_pod_log(
            self.pod, self.namespace, timestamps=True, tail_lines=1
        )
        assert isinstance(found, str)

    def forward(self) -> None:
        portforward(
            self.core.connect_get_namespaced_pod_portforward, self.pod, self.namespace, ports="80"
        )

    def impersonate(self) -> None:
        self.api.set_default_header("Impersonate-User", "bob")
        try:
            self.core.list_namespaced_pod(self.namespace)
        except client.ApiException as error:
            answer = (error.status, "bob" in str(error.body))
        else:
            answer = (200, False)
        del self.api.default_headers["Impersonate-User"]
        assert answer == (403, True), answer

    def selectors(self) -> None:
        selected = self.core.list_namespaced_pod(
            self.namespace, label_selector="app=official"
        ).items
        assert [item.metadata.name for item in selected] == [self.pod]

    def no_jobs(self) -> None:
        assert self.batch.list_namespaced_job(self.namespace).items == []

    def job(self) -> None:
        containers = [{"name": "c", "image": "busybox:1.36"}]
        spec = {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}}
        self.batch.create_namespaced_job(self.namespace, {"metadata": {"name": "j"}, "spec": spec})

    def claims(self) -> None:
        self.core.list_namespaced_persistent_volume_claim(self.namespace)

    def end(self) -> None:
        self.core.delete_namespace(self.namespace)


def main() -> None:
    program = Program(*sys.argv[1:3])
    steps: dict[str, Callable[[], Any]] = {
        "create": program.make, "watch until ready": program.watch, "watch ends in time": program.watch_ends,
        "list with selectors": program.selectors, "apply with force": program.apply, "exec": program.exec,
        "logs": program.logs, "impersonate": program.impersonate, "orphan dependents": program.orphan,
        "list jobs": program.no_jobs, "create a job": program.job, "list claims": program.claims,
        "port-forward": program.forward, "delete the namespace": program.end,
    }  # fmt: skip
    for name, action in steps.items():
        step(name, action)


main()
