# SPDX-License-Identifier: Apache-2.0
"""What is installed on a cluster, as the control plane asks for it; the assembly says who installed it."""

from collections.abc import Mapping
from typing import Any, Protocol

from hybridlab.api.contract import Obj
from hybridlab.profiles.machines import Machine


class Workloads(Protocol):
    """The system workloads of a cluster, as API objects with their real shape.

    Their programs run elsewhere in the lab (API server, Felix, kube-proxy ...).
    """

    operator: bool
    """Calico's operator keeps what it laid."""
    pod_prefix: str
    """How the names of pods' interfaces on nodes begin."""

    def namespaces(self) -> list[str]:
        """Return the namespaces that exist before anything else."""

    def objects(self) -> list[tuple[str, Obj]]:
        """Return (resource, object) in the order in which they are created."""

    def node_labels(self, machine: Machine) -> Mapping[str, str]:
        """Return what whoever set the machine up labels its Node with."""

    def rendered(
        self, installation: Mapping[str, Any], felix: Mapping[str, Any]
    ) -> list[tuple[str, Obj]]:
        """Return what the operator lays by the specs of Installation and FelixConfiguration ``default``."""
