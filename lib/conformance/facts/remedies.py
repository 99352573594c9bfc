"""The commands that mend a cluster, in the form that works on this one: operator, v3 API, or calicoctl.

Only words for messages: nothing here is ever run.
"""

import json
from typing import Any

from conformance.kube.client import Kube
from conformance.model.facts import Facts

V3, CRD = "projectcalico.org/v3", "crd.projectcalico.org/v1"


class Remedies:
    """Commands for one cluster."""

    def __init__(self, kube: Kube, facts: Facts) -> None:
        self._kube, self._operator = kube, facts.install.value == "operator"

    def strict_affinity(self) -> str:
        """Turn IPAM's strict affinity on."""
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
        """Give the pools an encapsulation that Windows has."""
        if self._operator:
            patch = _json([{"op": "replace", "path": "/spec/calicoNetwork/ipPools/0/encapsulation", "value": "VXLAN"}])
            return (
                f"kubectl patch installation default --type=json -p '{patch}' (the operator reverts edits of pools); "
                "a pool that is not the operator's: " + self._pool({"ipipMode": "Never", "vxlanMode": "Always"})
            )
        return self._pool({"ipipMode": "Never", "vxlanMode": "Always"})

    def modes(self) -> str:
        """Bring pools and BGP into a combination that Windows has."""
        return f"use VXLAN throughout: {self.encapsulation()}; and {self.bgp_disabled()}"

    def bgp_disabled(self) -> str:
        """Turn BGP off."""
        if self._operator:
            patch = _json({"spec": {"calicoNetwork": {"bgp": "Disabled"}}})
            return f"kubectl patch installation default --type=merge -p '{patch}'"
        patch = _json({"data": {"calico_backend": "vxlan"}})
        return (
            f"kubectl patch configmap -n kube-system calico-config --type=merge -p '{patch}', "
            "then kubectl rollout restart -n kube-system daemonset/calico-node"
        )

    def felix(self, field: str) -> str:
        """Give FelixConfiguration its default for a field again."""
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
