# SPDX-License-Identifier: Apache-2.0
"""Facts about a Calico that was installed on Windows nodes by hand or by manifest: whether it runs,
and the kubeconfig of its CNI plugin. The module judges nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from conformance.errors import MissingCapability
from conformance.facts.diagnostics_bundle import calico_pods
from conformance.facts.felix_state import felix_pod_states
from conformance.facts.node_readings import Hosts
from conformance.kube.client import Kube
from conformance.model.facts import Fact, Facts, NodeFacts

SERVICES = ("CalicoNode", "CalicoFelix")
"""The Windows services that install-calico.ps1 makes in every mode (projectcalico/calico
node/windows-packaging)."""
RUNNING = "Running"
VALID = "valid"


@dataclass(frozen=True)
class WindowsInstall:
    """The facts about such an installation that a single test reads."""

    kube: Kube
    hosts: Hosts
    facts: Facts
    windows: Sequence[NodeFacts]
    """The nodes that may be read by HostProcess pods."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def state(self, node: str) -> dict[str, Fact[str]]:
        """Return ``Running`` or another state of Calico on a node, according to its services or the
        DaemonSet's pod."""
        if self.facts.install.value == "manifest":
            pod = felix_pod_states(calico_pods(self.kube, [node])).get(node)
            state = RUNNING if pod and pod.runs else pod.told if pod else "missing"
            return {f"pod of calico-node on node {node}": Fact(state, "the pod's status")}
        return {
            f"service {name} on node {node}": Fact(
                self.hosts.service(node, name) or "not installed", f"Get-Service {name}"
            )
            for name in SERVICES
        }

    def kubeconfig(self, node: str) -> dict[str, Fact[str]]:
        """Return the state of the kubeconfig of Calico's CNI plugin: ``valid``, ``missing``, or the
        time since which its token has expired.

        Raise MissingCapability if Calico keeps its data in etcd, or if the plugin is not Calico's.
        """
        cni = self.facts.cni
        datastore = self.facts.datastore
        if cni.value != "Calico" or datastore.value != "kubernetes":
            raise MissingCapability(
                f"the suite does not read the credentials of CNI plugin {cni.value} with datastore "
                f"{datastore.value}",
                "check on the node that the plugin's files of credentials are valid",
            )
        ends = self.hosts.cni_tokens(node)
        over = [end for end in ends if end is not None and end <= self.now]
        value = VALID if ends else "missing"
        if over and len(over) == len(ends):
            value = f"a token that expired at {max(over):%Y-%m-%dT%H:%M:%SZ}"
        name = f"kubeconfig of Calico's CNI plugin on node {node}"
        return {name: Fact(value, "calico-kubeconfig in the folder of CNI configurations")}
