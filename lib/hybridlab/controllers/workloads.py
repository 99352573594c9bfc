# SPDX-License-Identifier: Apache-2.0
"""The interface through which the control plane reads the installed workloads; the code that puts
the lab together chooses their installer."""

from collections.abc import Mapping
from typing import Any, Protocol

from hybridlab.api.contract import Obj
from hybridlab.profiles.machines import Machine


class Workloads(Protocol):
    """The system workloads of a cluster, as API objects in their real form.

    Their programs run elsewhere in the lab (API server, Felix, kube-proxy ...).
    """

    operator: bool
    """Calico's operator maintains the workloads that it installed."""
    pod_prefix: str
    """The beginning of the names of pods' interfaces on nodes."""

    def namespaces(self) -> list[str]:
        """Return the namespaces that exist before anything else."""

    def objects(self) -> list[tuple[str, Obj]]:
        """Return (resource, object) in the order in which they are created."""

    def node_labels(self, machine: Machine) -> Mapping[str, str]:
        """Return the labels that a machine's provider sets on its Node."""

    def rendered(
        self, installation: Mapping[str, Any], felix: Mapping[str, Any]
    ) -> list[tuple[str, Obj]]:
        """Return the operator's objects for the specs of Installation and FelixConfiguration
        ``default``.
        """
