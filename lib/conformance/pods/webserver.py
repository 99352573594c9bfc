"""The demo's Windows web server: a Deployment of two replicas behind a NodePort, both on nodes of one Windows build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from conformance.errors import EnvironmentBroken
from conformance.kube import manifest
from conformance.model.change import ObjectRef
from conformance.model.endpoint import Path, Target
from conformance.pods import tailor
from conformance.pods.deploy import Pods
from conformance.pods.placement import Placement, tolerations
from conformance.pods.roles import MANIFESTS, ROLES
from conformance.pods.starting import verdict_on

NAME = "win-webserver"
BUILD_LABEL = "node.kubernetes.io/windows-build"


class WebServer:
    """One worker's web server; :meth:`remove` takes it away again."""

    def __init__(self, pods: Pods, placement: Placement, claims: Sequence[str] = ()) -> None:
        """``claims``: the test's, for what it says."""
        self._pods, self._placement, self._claims = pods, placement, claims
        self._made = False

    def start(self, *, because: str) -> tuple[list[Target], Target]:
        """Deploy it: its replicas' own addresses, and the NodePort at the first one's node.

        Raises Nonconformance when the replicas do not become ready although their image is there and runs.
        """
        pods, changes = self._pods, self._pods.changes
        pods.prepare(pods.namespace)
        service, deployment = manifest.load(MANIFESTS / "services" / f"{NAME}.yaml")
        node = self._placement.first("windows")
        made = tailor.deployment(
            deployment,
            name=NAME,
            node=node,
            images=pods.settings.images,
            tolerations=tolerations(pods.settings.tolerations),
        )
        made["spec"]["replicas"] = 2
        spec = made["spec"]["template"]["spec"]
        if BUILD_LABEL in node.labels:  # any node of that build will do, not only the one that the image was chosen for
            spec["nodeSelector"].pop("kubernetes.io/hostname", None)
            spec.pop("affinity", None)
        self._made = True
        answer = changes.apply(service, "the demo's NodePort", namespace=pods.namespace) or service
        changes.apply(made, "the demo's web server", namespace=pods.namespace)
        patience = pods.settings.timings.windows
        try:
            found = changes.waits.pods_ready(
                pods.namespace, f"app={NAME}", 2, within=patience.image_pull + patience.pod_ready
            )
        except EnvironmentBroken as trouble:
            there = pods.kube.objects("v1", "Pod", pods.namespace, labels=f"app={NAME}")
            verdict = verdict_on(there, trouble, self._claims, because)
            if verdict is trouble:
                raise
            raise verdict from trouble
        role = replace(ROLES["windows-server"], name=NAME)
        replicas = [pods.workload(pod, role) for pod in found]
        port = answer["spec"]["ports"][0].get("nodePort")
        return [one.tcp(80) for one in replicas], Target(
            host=replicas[0].node_address,
            port=int(port),
            protocol="tcp",
            path=Path.NODE_PORT,
            backends=tuple(replicas),
            name=f"NodePort of {NAME}",
        )

    def remove(self) -> None:
        """Delete Deployment and Service, if they were made; their addresses are free again."""
        if not self._made:
            return
        self._made = False
        namespace = self._pods.namespace
        for api, kind in (("apps/v1", "Deployment"), ("v1", "Service")):
            target = ObjectRef(api_version=api, kind=kind, name=NAME, namespace=namespace)
            self._pods.changes.delete(target, "its test is over")
