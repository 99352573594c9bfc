# SPDX-License-Identifier: Apache-2.0
"""Services that a test creates for pods, gives other backends or another port, robs of all
backends, and deletes."""

from dataclasses import replace

from conformance.errors import MissingCapability
from conformance.kube import manifest
from conformance.kube.changes import Changes, reference
from conformance.kube.fields import list_at
from conformance.model.change import ObjectRef
from conformance.model.endpoint import Target
from conformance.pods.groups import Group
from conformance.pods.roles import ECHO_PORT, MANIFESTS
from conformance.pods.services import PORT, Services
from conformance.settings import Timings
from conformance.timing import until

NOBODY = {"app": "nobody"}
"""Labels that no pod has."""
ANOTHER_PORT = 82
"""The port that replaces a Service's first port."""
BEHIND = 8081
"""The port of the backends to which an edited Service leads."""


class PassingServices:
    """The Services of a test, one Service for each role's pods; :meth:`remove` removes them."""

    def __init__(self, changes: Changes, services: Services) -> None:
        self._changes = changes
        self._services = services
        self._made: list[ObjectRef] = []

    def come(self, *groups: Group, at_nodes: bool = False) -> list[Target]:
        """Return a Service for each group, with the group's pods as backends. A further call gives
        the same Services these backends again.

        ``at_nodes``: make Services with a NodePort.
        """
        of = "node-port" if at_nodes else "cluster-ip"
        return [self._over(at, group, of=of) for at, group in enumerate(groups)]

    def lose_backends(self, *groups: Group) -> None:
        """Change the Services of these groups, in the order of their creation, so that they
        select no pod any more.
        """
        for at, group in enumerate(groups):
            self._over(at, group, NOBODY)

    def get_another_port(self, group: Group) -> None:
        """Replace the port of the first group's Service by another port."""
        self._over(0, group, port=ANOTHER_PORT)

    def lead_to_another_port(self, group: Group) -> Target:
        """Edit the target ports, and nothing else, of the first group's Service."""
        return self._over(0, group, behind=BEHIND)

    def remove(self) -> None:
        for target in self._made:
            self._changes.delete(target, "its test is over")
        self._made.clear()

    def _over(
        self,
        at: int,
        backends: Group,
        selector: dict[str, str] | None = None,
        *,
        of: str = "cluster-ip",
        port: int = PORT,
        behind: int = ECHO_PORT,
    ) -> Target:
        first = backends.first
        made = manifest.load(MANIFESTS / "services" / f"{of}.yaml")[0]
        made["metadata"]["name"] = f"passing-{at + 1}"
        made["spec"]["selector"] = selector or {"app": first.role}
        for entry in made["spec"]["ports"]:
            if entry["port"] == PORT:
                entry |= {"port": port, "targetPort": behind}
        target = reference(made, first.namespace)
        self._made += [target] if target not in self._made else []
        done = self._changes.apply(
            made, f"is created and deleted for pods {first.role}", namespace=first.namespace
        )
        return replace(self._services.read(done or made, backends).by_address, backend_port=behind)


class LoadBalancers(PassingServices):
    """The Services of a test that request a load balancer; a cloud charges for each."""

    def __init__(self, changes: Changes, services: Services, timings: Timings) -> None:
        super().__init__(changes, services)
        self._patience = timings.run

    def over(self, backends: Group) -> Target:
        """Return the address that a load balancer gave to a Service over these pods.

        Raise MissingCapability if no load balancer gave an address in time.
        """
        front = self._over(0, backends, of="load-balancer")
        settled = until(
            self._given,
            bool,
            within=0.0 if self._changes.dry_run else self._patience.load_balancer,
            every=self._patience.pod_status,
            description="a Service gets the address of a load balancer",
        )
        if not settled.converged and not self._changes.dry_run:
            raise MissingCapability(
                f"no load balancer gave {front.name} an address within {settled.seconds:.0f} s",
                "kubectl describe says why; a cluster outside a cloud needs, for example, MetalLB",
            )
        return replace(
            front,
            host=settled.observations[-1] or front.host,
            name=f"the load balancer of {front.name}",
        )

    def _given(self) -> str:
        """Return the address or the name that the Service got; an empty string if it has none so
        far."""
        made = self._made[0]
        there = self._changes.kube.find(made.api_version, made.kind, made.name, made.namespace)
        entries = list_at(there or {}, "status", "loadBalancer", "ingress")
        return next((str(entry.get("ip") or entry.get("hostname")) for entry in entries), "")
