# SPDX-License-Identifier: Apache-2.0
"""The installed software of a cluster, for the control plane (``controllers.workloads``) and for
Calico."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.calico.resources import CalicoResources
from hybridlab.cluster.installs import calico, configuration, kubernetes, operator
from hybridlab.cluster.installs.axes import install_of, provider_of
from hybridlab.networks.contract.plane import Plane
from hybridlab.profiles.machines import Machine
from hybridlab.profiles.model import Profile


class Installed:
    """The installed software of a cluster."""

    def __init__(self, profile: Profile, plane: Plane) -> None:
        self._profile = profile
        self._plane = plane
        self._install = install_of(profile)
        self.operator = self._install.operator
        self.cni_file = self._install.cni_file
        self.pod_prefix = plane.pod_prefix

    def namespaces(self) -> list[str]:
        found = ["default", "kube-system", "kube-public", "kube-node-lease"]
        found += ["tigera-operator"] if self._install.operator else []
        found += ["calico-system"] if self._install.operator or self._install.windows_pods else []
        return [*found, "calico-apiserver"] if self._profile.calico.v3_api else found

    def objects(self) -> list[tuple[str, Obj]]:
        return [
            *kubernetes.objects(self._profile, self._plane),
            *calico.objects(self._profile, self._plane, self._plane.declared()),
            *self._plane.objects(),
        ]

    def node_labels(self, machine: Machine) -> Mapping[str, str]:
        if not (machine.group.control_plane and provider_of(self._profile).own_control_plane):
            return {}
        return {
            "node-role.kubernetes.io/control-plane": "",
            "node.kubernetes.io/exclude-from-external-load-balancers": "",
        }

    def rendered(
        self, installation: Mapping[str, Any], felix: Mapping[str, Any]
    ) -> list[tuple[str, Obj]]:
        at_first = self._plane.declared()
        network = self._profile.network
        bgp = (installation.get("calicoNetwork") or {}).get("bgp") or at_first.bgp
        declared = replace(at_first, bgp=bgp, felix={**at_first.felix, **felix})
        services = installation.get("serviceCIDRs") or [network.service_cidr]
        profile = replace(self._profile, network=replace(network, service_cidr=services[0]))
        return [
            *calico.objects(profile, self._plane, declared),
            *(
                ("configmaps", obj)
                for obj in operator.cni_config_maps(profile, self._plane, declared)
            ),
        ]

    def calico_objects(self, resources: CalicoResources) -> list[tuple[str, Obj]]:
        """Return Calico's own configuration objects."""
        return configuration.configuration(self._profile, self._plane, resources)

    def operator_objects(self) -> list[tuple[str, Obj]]:
        """Return the objects that the operator reads and writes, including their status; return an
        empty list without an operator."""
        return operator.objects(self._profile, self._plane) if self._install.operator else []

    def windows_status(self, *, strict_affinity: bool) -> Obj | None:
        """Return the TigeraStatus of Calico on Windows; None without an operator."""
        return (
            operator.windows_status(self._profile, strict_affinity=strict_affinity)
            if self._install.operator and self._install.windows_pods
            else None
        )
