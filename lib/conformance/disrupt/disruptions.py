# SPDX-License-Identifier: Apache-2.0
"""The disruptions of a cluster, assembled in one place for a test, a dry run and a restore.

The three uses differ in the access to the cluster (``changes``: a dry run only describes them), in
the notes about changes (``journal``), and in how commands reach pods and hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.disrupt import felix_process, felix_service
from conformance.disrupt.drain import Drain
from conformance.disrupt.felix import Felix
from conformance.disrupt.kube_proxy import KubeProxy
from conformance.disrupt.patience import Patience, patience_of
from conformance.disrupt.procedure import Procedure
from conformance.disrupt.third_party import ThirdPartyPods
from conformance.disrupt.vni import Vni
from conformance.journal.journalling import Journalling
from conformance.kube.changes import Changes
from conformance.kube.client import Obj
from conformance.kube.execute import ExecResult
from conformance.kube.fields import value_at
from conformance.model.endpoint import Workload
from conformance.model.facts import Facts
from conformance.probe.host import Hosts
from conformance.settings import Settings
from conformance.timing import SYSTEM_CLOCK, Clock


@dataclass(frozen=True, kw_only=True)
class Disruptions:
    """The disruptions, each created when it is first used."""

    changes: Changes
    journal: Journalling
    facts: Facts
    settings: Settings
    hosts: Hosts
    clock: Clock = SYSTEM_CLOCK
    claims: Sequence[str] = ()
    """Claims of the test, for messages."""

    @property
    def patience(self) -> Patience:
        """Return the time limits for Windows nodes."""
        return patience_of(self.settings)("windows")

    @property
    def felix(self) -> Felix:
        services = felix_service.FelixService(
            self._in_host, by_agent=self.facts.install.value == "agent"
        )
        return Felix(
            self.changes.kube,
            self.journal,
            {node.name: node.os for node in self.facts.nodes}.__getitem__,
            patience_of(self.settings),
            processes=felix_process.FelixProcess(self._in_pod),
            services=services if felix_service.may_be_service(self.facts) else None,
            clock=self.clock,
            claims=self.claims,
            windows_pods=self.facts.felix_pods,
        )

    @property
    def kube_proxy(self) -> KubeProxy:
        return KubeProxy(self.changes, self.journal, self.patience, self.clock)

    @property
    def drain(self) -> Drain:
        return Drain(
            self.changes,
            self.journal,
            self.patience,
            self.clock,
            lose_data=self.settings.delete_emptydir_data,
        )

    @property
    def third_party_pods(self) -> ThirdPartyPods:
        return ThirdPartyPods(self.changes, self.journal, self.patience, self.clock)

    @property
    def vni(self) -> Vni:
        return Vni(
            self.changes,
            self.journal,
            self.patience,
            self.clock,
            hosts=self.hosts,
            facts=self.facts,
        )

    @property
    def procedure(self) -> Procedure:
        return Procedure(
            self.drain,
            self.felix,
            self.hosts,
            self.third_party_pods,
            self.patience,
            clock=self.clock,
        )

    def _in_host(self, node: str, argv: Sequence[str], change: str = "") -> ExecResult:
        return self._command(lambda: self.hosts.on_windows(node), argv, change)

    def _in_pod(
        self, pod: Obj, container: str, argv: Sequence[str], change: str = ""
    ) -> ExecResult:
        return self._command(lambda: _workload(pod, container), argv, change)

    def _command(
        self, place: Callable[[], Workload], argv: Sequence[str], change: str
    ) -> ExecResult:
        """Run a command in a Windows pod. A dry run describes its ``change`` instead, and pretends
        that the command printed 0."""
        if self.changes.dry_run:
            if change:
                self.changes.tell(f"dry run: {change}")
            return ExecResult(0, b"0", b"", 0.0)
        return self.hosts.command(place(), argv)


def _workload(pod: Obj, container: str) -> Workload:
    """Return a container of Calico's pod on a Windows node as a Workload."""
    address = str(value_at(pod, "status", "hostIP") or "")
    return Workload(
        namespace=pod["metadata"]["namespace"],
        pod=pod["metadata"]["name"],
        container=container,
        uid=pod["metadata"]["uid"],
        role="calico-node",
        os="windows",
        node=pod["spec"]["nodeName"],
        address=address,
        node_address=address,
        host_network=True,
    )
