# SPDX-License-Identifier: Apache-2.0
"""Backends of Services that the run itself determines, by its own EndpointSlice or by a readiness
gate of its own pod."""

from conformance.errors import EnvironmentBroken
from conformance.kube import manifest
from conformance.kube.changes import Changes, reference
from conformance.kube.client import Obj
from conformance.kube.pod_state import is_ready
from conformance.model.change import Change, ObjectRef
from conformance.model.endpoint import Workload
from conformance.pods.deploy import NEVER
from conformance.pods.groups import Group
from conformance.pods.roles import MANIFESTS
from conformance.pods.services import Service, Services
from conformance.pods.unready import UnreadyServers
from conformance.settings import Timings
from conformance.timing import until


class OwnBackends:
    """The Services of a test, and the EndpointSlices and gates that determine their backends;
    :meth:`remove` removes them."""

    def __init__(
        self, changes: Changes, services: Services, unready: UnreadyServers, timings: Timings
    ) -> None:
        self._changes = changes
        self._services = services
        self._unready = unready
        self._timings = timings
        self._made: list[ObjectRef] = []

    def without_selector(self, backends: Group) -> Service:
        """Return a Service without a selector, and create an EndpointSlice that names these pods. A
        second call makes the slice name other pods."""
        made, named = manifest.load(MANIFESTS / "services" / "without-selector.yaml")
        named["endpoints"] = [
            {"addresses": [pod.address], "nodeName": pod.node, "conditions": {"ready": True}}
            for pod in backends
        ]
        first = backends.first
        self._apply(named, first, f"names {len(backends)} of the pods {first.role} as backends")
        done = self._apply(made, first, "has backends that an EndpointSlice of the run names")
        return self._services.read(done or made, backends)

    def beside(self, servers: Group) -> Workload:
        """Return another pod of these servers' role. It runs, but is not ready."""
        return self._unready.beside(servers)

    def become(self, pod: Workload, *, ready: bool) -> None:
        """Change the readiness gate of a pod that :meth:`beside` returned, and wait until the pod's
        readiness changes accordingly.

        Raise EnvironmentBroken if the readiness does not change.
        """
        condition = {"type": NEVER, "status": "True" if ready else "False"}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod.pod, "namespace": pod.namespace},
        }
        self._changes.make(
            Change(
                verb="apply",
                target=reference(body),
                subresource="status",
                why=f"its readiness gate is {'true' if ready else 'false'} from now on",
                body={**body, "status": {"conditions": [condition]}},
            )
        )
        if self._changes.dry_run:
            return
        settled = until(
            lambda: self._changes.kube.get("v1", "Pod", pod.pod, pod.namespace),
            lambda there: is_ready(there) is ready,
            within=self._timings.of(pod.os).pod_ready,
            every=self._timings.of(pod.os).poll_every,
            description=f"the kubelet of node {pod.node} follows a readiness gate",
        )
        if not settled.converged:
            state = "ready" if ready else "unready"
            raise EnvironmentBroken(
                f"pod {pod.label} did not become {state} within {settled.seconds:.0f} s, although "
                f"its readiness gate was set accordingly: check the kubelet of node {pod.node}"
            )

    def remove(self) -> None:
        for target in self._made:
            self._changes.delete(target, "its test is over")
        self._made.clear()

    def _apply(self, made: Obj, first: Workload, why: str) -> Obj | None:
        target = reference(made, first.namespace)
        self._made += [target] if target not in self._made else []
        return self._changes.apply(made, why, namespace=first.namespace)
