# SPDX-License-Identifier: Apache-2.0
"""The demo's Windows web server: on each Windows build two replicas behind a NodePort."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from conformance.errors import EnvironmentBroken
from conformance.kube import manifest
from conformance.kube.client import Obj
from conformance.model.change import ObjectRef
from conformance.model.decision import Decision
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.model.facts import NodeFacts
from conformance.pods import tailor
from conformance.pods.deploy import Pods
from conformance.pods.placement import Placement, tolerations
from conformance.pods.roles import DEMO_PORT, MANIFESTS, ROLES
from conformance.pods.starting import decision_on_failure, verdict_on

__tracebackhide__ = True  # a failure shows the line of the test instead of this module's

NAME = "win-webserver"
BUILD_LABEL = "node.kubernetes.io/windows-build"


class WebServer:
    """A worker's web servers, one on each Windows build; :meth:`remove` deletes them."""

    def __init__(
        self,
        pods: Pods,
        placement: Placement,
        claims: Sequence[str] = (),
        keep: Callable[[Sequence[Decision]], object] = lambda decisions: None,
    ) -> None:
        """Set up the web server's tests. ``claims``: the test's claims, for messages; ``keep``
        records decisions."""
        self._pods = pods
        self._placement = placement
        self._claims = claims
        self._keep = keep
        self._made: list[str] = []

    def start(self, *, because: str) -> tuple[list[Target], list[Target]]:
        """Deploy the web servers. Return the replicas' own addresses, and for each server the
        NodePort at its first replica's node.

        Raise Nonconformance if replicas do not become ready although their image exists and runs.
        """
        self._pods.prepare(self._pods.namespace)
        nodes = self._placement.one_per_build()
        services = [self._make(node, self._name(node)) for node in nodes]
        replicas: list[Target] = []
        ports: list[Target] = []
        for node, service in zip(nodes, services, strict=True):
            found = self._ready(node, because)
            replicas += [workload.tcp(80) for workload in found]
            ports.append(self._node_port(service, found))
        return replicas, ports

    def remove(self) -> None:
        """Delete the Deployments and Services that were made, so that their addresses become
        free."""
        made = self._made
        self._made = []
        for name in made:
            for api, kind in (("apps/v1", "Deployment"), ("v1", "Service")):
                target = ObjectRef(
                    api_version=api, kind=kind, name=name, namespace=self._pods.namespace
                )
                self._pods.changes.delete(target, "its test is over")

    def _name(self, node: NodeFacts) -> str:
        return f"{NAME}-{self._placement.number(node.name)}"

    def _make(self, node: NodeFacts, name: str) -> Obj:
        """Return the Service as the API server filled it in."""
        pods = self._pods
        service, deployment = manifest.load(MANIFESTS / "services" / f"{NAME}.yaml")
        made = tailor.deployment(
            deployment,
            role=NAME,
            name=name,
            node=node,
            images=pods.settings.images,
            tolerations=tolerations(pods.settings.tolerations),
            limits=pods.settings.pod_limits,
        )
        made["spec"]["replicas"] = 2
        spec = made["spec"]["template"]["spec"]
        if BUILD_LABEL in node.labels:  # any node of this build is possible, not only this node
            spec["nodeSelector"].pop("kubernetes.io/hostname", None)
            spec.pop("affinity", None)
        service["metadata"]["name"] = name
        service["spec"]["selector"] = {tailor.SEAT: name}
        self._made.append(name)
        answer = (
            pods.changes.apply(service, "the demo's NodePort", namespace=pods.namespace) or service
        )
        pods.apply(made, "the demo's web server", pods.namespace)
        return answer

    def _ready(self, node: NodeFacts, because: str) -> list[Workload]:
        pods = self._pods
        patience = pods.settings.timings.windows
        labels = f"{tailor.SEAT}={self._name(node)}"
        try:
            found = pods.changes.waits.pods_ready(
                pods.namespace, labels, 2, within=patience.image_pull + patience.pod_ready
            )
        except EnvironmentBroken as error:
            there = pods.kube.objects("v1", "Pod", pods.namespace, labels=labels)
            verdict = verdict_on(there, error, self._claims, because, pods.changes.waits.events)
            self._keep([decision_on_failure(node, verdict)])
            # the traceback of the wait shows nothing useful
            raise verdict.with_traceback(None) from None
        return [pods.workload(pod, replace(ROLES["windows-server"], name=NAME)) for pod in found]

    def _node_port(self, service: Obj, replicas: Sequence[Workload]) -> Target:
        return Target(
            host=replicas[0].node_address,
            port=int(service["spec"]["ports"][0].get("nodePort")),
            protocol="tcp",
            path=Addressing.NODE_PORT,
            backends=tuple(replicas),
            name=f"NodePort of {service['metadata']['name']} at node {replicas[0].node}",
            backend_port=DEMO_PORT,
            at=replicas[0],
        )
