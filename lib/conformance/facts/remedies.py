# SPDX-License-Identifier: Apache-2.0
"""The commands that repair a cluster, in the form for this cluster: for the operator, the v3 API,
or calicoctl.

They are only texts for messages: the suite never runs them.
"""

import json
from typing import Any

from conformance.facts.calico_api import CRD, V3
from conformance.facts.felix_settings import ruled
from conformance.kube.client import Kube
from conformance.model.facts import Facts

INSTALLATION = ("operator.tigera.io/v1", "Installation")
KEPT = {
    "agent": " (to keep the change, edit HelmChartConfig rke2-calico in kube-system, too)",
    "platform": " (AKS keeps the Installation of its add-on and may put it back)",
}
"""Other programs that write the Installation, by the way in which Calico was installed on the
Windows nodes."""


class Remedies:
    """Commands for one cluster. An operator that manages Calico only on Linux also manages the
    pools and BGP."""

    def __init__(self, kube: Kube, facts: Facts) -> None:
        self._kube = kube
        self._overriding = facts.felix_overrides
        self._kept = KEPT.get(facts.install.value or "", "")
        self._operator = facts.install.value == "operator" or kube.discovery.serves(*INSTALLATION)

    def strict_affinity(self) -> str:
        patch = _json({"spec": {"strictAffinity": True}})
        if self._kube.discovery.serves(V3, "IPAMConfiguration"):
            return f"kubectl patch ipamconfigurations.projectcalico.org default --type=merge -p '{patch}'"
        if self._kube.discovery.serves(CRD, "IPAMConfig"):
            return (
                "calicoctl ipam configure --strictaffinity=true, or "
                f"kubectl patch ipamconfigs.crd.projectcalico.org default --type=merge -p '{patch}'"
            )
        return "calicoctl ipam configure --strictaffinity=true"

    def encapsulation(self) -> str:
        """Return the command that gives the pools an encapsulation that Windows supports."""
        if self._operator:
            patch = _json(
                [
                    {
                        "op": "replace",
                        "path": "/spec/calicoNetwork/ipPools/0/encapsulation",
                        "value": "VXLAN",
                    }
                ]
            )
            return (
                f"kubectl patch installation default --type=json -p '{patch}' (the operator reverts edits of pools)"
                f"{self._kept}; "
                "for a pool that the operator does not manage: "
                + self._pool({"ipipMode": "Never", "vxlanMode": "Always"})
            )
        return self._pool({"ipipMode": "Never", "vxlanMode": "Always"})

    def modes(self) -> str:
        """Return the command that sets pools and BGP to a combination that Windows supports."""
        return f"use VXLAN everywhere: {self.encapsulation()}; and {self.bgp_disabled()}"

    def bgp_disabled(self) -> str:
        if self._operator:
            patch = _json({"spec": {"calicoNetwork": {"bgp": "Disabled"}}})
            return f"kubectl patch installation default --type=merge -p '{patch}'{self._kept}"
        patch = _json({"data": {"calico_backend": "vxlan"}})
        return (
            f"kubectl patch configmap -n kube-system calico-config --type=merge -p '{patch}', "
            "then kubectl rollout restart -n kube-system daemonset/calico-node"
        )

    def felix(self, field: str) -> str:
        """Return the command that resets a field of FelixConfiguration to its default, or that
        removes the setting which overrides it."""
        if variables := ruled(self._overriding, field):
            return f"remove what overrides FelixConfiguration default: {variables}"
        patch = _json({"spec": {field: None}})
        if self._kube.discovery.serves(V3, "FelixConfiguration"):
            return f"kubectl patch felixconfigurations.projectcalico.org default --type=merge -p '{patch}'"
        return f"calicoctl patch felixconfiguration default -p '{patch}'"

    def _pool(self, spec: dict[str, Any]) -> str:
        patch = _json({"spec": spec})
        if self._kube.discovery.serves(V3, "IPPool"):
            return f"kubectl patch ippools.projectcalico.org POOL --type=merge -p '{patch}'"
        return f"calicoctl patch ippool POOL -p '{patch}'"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
