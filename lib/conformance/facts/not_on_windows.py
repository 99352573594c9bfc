# SPDX-License-Identifier: Apache-2.0
"""Facts about features that only Linux nodes have: WireGuard, IPv6, eBPF. The module judges
nothing.

If no Linux node uses a feature, its absence on Windows shows nothing, so each read raises
MissingCapability.
"""

from dataclasses import dataclass

from conformance.errors import MissingCapability, NotObservable
from conformance.facts.felix_settings import is_on
from conformance.facts.objects import CalicoObjects
from conformance.kube.client import Obj
from conformance.kube.fields import list_at, value_at
from conformance.model.facts import Fact

KEY = "projectcalico.org/WireguardPublicKey"
"""The annotation of a node with its public key, written by Felix on Linux (libcalico-go,
lib/backend/k8s/resources/node.go)."""
OF_IPV6 = ("projectcalico.org/IPv6Address", "projectcalico.org/IPv6VXLANTunnelAddr")
NONE = "none"


@dataclass(frozen=True)
class NotOnWindows:
    """Reads, for one worker, the facts about features that only Linux nodes have."""

    calico: CalicoObjects

    def keys(self, node: str) -> dict[str, Fact[str]]:
        """Return a node's public key of WireGuard, or ``none``. Raise MissingCapability if no Linux
        node has a key."""
        felix, api = self.calico.listed("FelixConfiguration")
        ruling = self.calico.facts.felix_overrides.get("linux", {}).get("wireguardEnabled")
        enabled = [value_at(obj, "spec", "wireguardEnabled") for obj in felix]
        if ruling:  # Felix' environment overrides every FelixConfiguration
            enabled = [is_on(ruling.value)]
        if not any(enabled):
            raise NotObservable(
                f"no FelixConfiguration ({api}) enables WireGuard", "enable WireGuard"
            )
        said = self.calico.annotations()
        if not any(KEY in said.get(linux.name, {}) for linux in self.calico.facts.by_os("linux")):
            raise MissingCapability(
                f"WireGuard is enabled, but no Linux node has a key (annotation {KEY})",
                "find out first why Linux nodes have no key",
            )
        return {
            f"WireGuard key of node {node}": Fact(
                said.get(node, {}).get(KEY, NONE), f"annotation {KEY} of the node"
            )
        }

    def ebpf(self) -> dict[str, Fact[str]]:
        """Return ``eBPF`` as the data plane of Linux nodes. Raise MissingCapability if they run
        another data plane."""
        found = self.calico.facts.kube_proxy_mode
        if found.value != "ebpf":
            raise NotObservable(
                f"Linux nodes do not run the eBPF data plane ({found.source})",
                "set linuxDataplane to BPF",
            )
        return {"the data plane of Linux nodes": Fact("eBPF", found.source)}

    def of_ipv6(self, node: str) -> dict[str, Fact[str]]:
        """Return the IPv6 addresses of a node's pods and in its annotations, or ``none``. Raise
        MissingCapability if no Linux node has any."""
        by_node: dict[str, list[Obj]] = {}
        for pod in self.calico.kube.objects("v1", "Pod"):
            if not pod["spec"].get("hostNetwork"):
                by_node.setdefault(pod["spec"].get("nodeName"), []).append(pod)
        linux = [
            pod for one in self.calico.facts.by_os("linux") for pod in by_node.get(one.name, ())
        ]
        if not any(map(_six, linux)):
            raise NotObservable("no Linux pod has an IPv6 address", "make the cluster dual-stack")
        found = {
            f"IPv6 addresses of pod {pod['metadata']['namespace']}/{pod['metadata']['name']} on node {node}": Fact(
                ", ".join(_six(pod)) or NONE, ".status.podIPs of the pod"
            )
            for pod in by_node.get(node, ())
            if value_at(pod, "status", "podIP")
        }
        own = self.calico.annotations().get(node, {})
        text = ", ".join(f"{name}={own[name]}" for name in OF_IPV6 if name in own)
        return found | {
            f"IPv6 addresses of node {node}": Fact(
                text or NONE, f"annotations {', '.join(OF_IPV6)} of the node"
            )
        }


def _six(pod: Obj) -> list[str]:
    return [
        address
        for address in [str(item.get("ip")) for item in list_at(pod, "status", "podIPs")]
        if ":" in address
    ]
