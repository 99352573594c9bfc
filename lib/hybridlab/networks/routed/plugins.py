# SPDX-License-Identifier: Apache-2.0
"""CNI plugins of Windows nodes on networks that Calico does not route.

A plugin determines how a pod is connected, its HNS network and endpoint, the host's own endpoint,
the CNI configuration, and whether a pod is open before Felix has programmed it.
"""

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any, ClassVar

from hybridlab.networks.contract.cni_configuration import ipam, windows_cni
from hybridlab.profiles.machines import Machine, dns_address, pod_cidr
from hybridlab.profiles.model import Profile

Policy = dict[str, Any]
ANNOTATIONS = "flannel.alpha.coreos.com"
"""Prefix of the annotations that flanneld writes on nodes."""
VPC_ADDRESS = "vpc.amazonaws.com/PrivateIPv4Address"
"""The extended resource of EKS' Windows nodes, and the annotation with the address that a pod got.
"""
NO_LABEL = f"failed to parse Kubernetes args: pod does not have label {VPC_ADDRESS}"
"""vpc-bridge's message for a pod without an address."""
WIRE_SERVER = "168.63.129.16"
"""The address at which Azure serves its agents; pods may not reach it."""


class Plugin:
    """A CNI plugin."""

    type: ClassVar[str]
    """The name of the plugin's program."""
    network: ClassVar[str]
    """The name of the plugin's HNS network."""
    kube_network: ClassVar[str]
    """The regular expression by which Felix finds this network (KUBE_NETWORK)."""
    host_endpoint: ClassVar[str] = ""
    """The name of the host's endpoint in the pods' network, which is the pods' gateway; empty: the
    host has no endpoint, and the gateway is the network's."""
    endpoint: ClassVar[str] = "{sandbox}_{network}"
    """The name of a pod's endpoint."""
    made_by_hand: ClassVar[bool] = False
    """True: the network was created by hand, so that it exists before the first pod."""
    installation: ClassVar[str] = "Calico"
    """Installation ``.spec.cni.type``."""
    on_linux: ClassVar[str] = "calico"
    """The type of Linux nodes' plugin."""
    pod_prefix: ClassVar[str] = "cali"
    cni_file: ClassVar[str]
    leaves_open: ClassVar[bool] = True
    """True: a pod receives and sends any traffic until Felix has programmed it. Only Calico's
    plugin gives the endpoint an ACL that blocks ingress."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def configuration(self) -> dict[str, Any]:
        """Return the CNI configuration as it is on a node's disk."""
        raise NotImplementedError

    def endpoint_policies(self) -> tuple[Policy, ...]:
        """Return the policies of every endpoint that are not in the CNI configuration."""
        return ()

    def unmasqueraded(self) -> tuple[str, ...]:
        """Return the networks for which pods keep their addresses, in addition to the pods' own."""
        return (self.profile.network.node_cidr,)

    def admit(self, pod: dict[str, Any]) -> None:
        """Change a new pod, as the plugin's webhook does."""

    def refusal(self, pod: Mapping[str, Any]) -> str:
        """Return the reason why the plugin cannot connect a pod; an empty string if it can."""
        return ""

    def full(self, machine: Machine) -> str:
        """Return the message with which the node's plugin refuses a pod once no address is left.

        By default it is host-local's message. On Windows, host-local's range begins after the
        address of the host's endpoint.
        """
        own = ip_network(pod_cidr(machine, self.profile))
        first = own[3 if machine.os == "windows" else 2]
        return f"no IP addresses available in range set: {first}-{own[-2]}"

    def pod_annotations(self, address: str) -> dict[str, str]:
        return {}

    def node_annotations(self, machine: Machine) -> dict[str, str]:
        return {}

    def objects(self) -> list[tuple[str, dict[str, Any]]]:
        """Return (resource, object) of the plugin's objects in the API."""
        return []

    def _policies(self, *, services: bool = True) -> list[dict[str, Any]]:
        """Return the policies of a configuration. Outbound NAT applies to all targets except pods,
        other networks for which pods keep their addresses and, unless Azure wrote the
        configuration, Services. Services are reached through the host."""
        network = self.profile.network
        own = (network.pod_cidr, network.service_cidr) if services else (network.pod_cidr,)
        return [
            {"Name": "EndpointPolicy", "Value": value}
            for value in (
                {"Type": "OutBoundNAT", "ExceptionList": [*own, *self.unmasqueraded()]},
                {"Type": "ROUTE", "DestinationPrefix": network.service_cidr, "NeedEncap": True},
            )
        ]

    def _dns(self) -> dict[str, list[str]]:
        search = f"svc.{self.profile.network.dns_domain}"
        return {"Nameservers": [dns_address(self.profile)], "Search": [search]}


class Calico(Plugin):
    """Calico's own plugin with host-local, as the operator installs it if BGP is disabled and no
    pool encapsulates."""

    type = "calico"
    network = "Calico"
    kube_network = "Calico.*"
    host_endpoint = "Calico_ep"
    cni_file = "10-calico.conflist"
    leaves_open = False

    def configuration(self) -> dict[str, Any]:
        return windows_cni(
            self.profile, {"mode": "none", "vxlan_mac_prefix": "0E-2A", "vxlan_vni": 4096}
        )

    def unmasqueraded(self) -> tuple[str, ...]:
        return ()


class WinBridge(Plugin):
    """The CNI project's plugin, on a network that an administrator created by hand.

    Sources: containernetworking/plugins plugins/main/windows/win-bridge; microsoft/SDN
    Kubernetes/windows/start-kubelet.ps1.
    """

    type = "win-bridge"
    network = "cbr0"
    kube_network = "cbr0.*"
    host_endpoint = "cbr0"
    made_by_hand = True
    cni_file = "cni.conf"

    def configuration(self) -> dict[str, Any]:
        return {
            "cniVersion": "0.2.0",
            "name": self.network,
            "type": self.type,
            "dns": self._dns(),
            "ipam": ipam(self.profile),
            "policies": self._policies(),
            "loopbackDSR": self.profile.kube_proxy.windows_dsr,
        }


class AzureVnet(Plugin):
    """Azure's plugin, without an overlay: pods have addresses of the nodes' virtual network, which
    delivers them.

    Sources: Azure/azure-container-networking cni/azure-windows.conflist, which Azure/AgentBaker
    staging/cse/windows/azurecnifunc.ps1 fills in.
    """

    type = "azure-vnet"
    network = "azure"
    kube_network = "azure.*"
    endpoint = "{sandbox:.8}-eth0"
    installation = "AzureVNET"
    on_linux = "azure-vnet"
    pod_prefix = "azv"
    cni_file = "10-azure.conflist"

    def configuration(self) -> dict[str, Any]:
        """Return the list of plugins. If kube-proxy uses direct server return, the list has no
        route to Services."""
        dsr = self.profile.kube_proxy.windows_dsr
        plugin = {
            "type": self.type,
            "mode": "bridge",
            "bridge": "azure0",
            "capabilities": {"portMappings": True, "dns": True},
            "ipam": {"type": "azure-vnet-ipam"},
            "dns": self._dns(),
            **({"windowsSettings": {"enableLoopbackDSR": True}} if dsr else {}),
            "AdditionalArgs": [
                *self._policies(services=False)[: 1 if dsr else 2],
                *({"Name": "EndpointPolicy", "Value": acl} for acl in self._acls()),
            ],
        }
        return {"cniVersion": "0.3.0", "name": self.network, "plugins": [plugin]}

    def _acls(self) -> tuple[Policy, ...]:
        """Return the ACLs: Azure's own server is out of reach, and everything else is open."""
        return (
            *(
                {
                    "Type": "ACL",
                    "Protocols": "6",
                    "Action": "Block",
                    "Direction": "Out",
                    "RemoteAddresses": f"{WIRE_SERVER}/32",
                    "RemotePorts": port,
                    "Priority": 200,
                    "RuleType": "Switch",
                }
                for port in ("80", "32526")
            ),
            *(
                {"Type": "ACL", "Action": "Allow", "Direction": direction, "Priority": 65500}
                for direction in ("In", "Out")
            ),
        )

    def full(self, machine: Machine) -> str:
        """Return the error text of azure-vnet-ipam, as in Azure/AKS#2532."""
        return (
            "Failed to allocate pool: Failed to delegate: "
            "Failed to allocate address: No available addresses"
        )


class VpcBridge(Plugin):
    """Amazon's plugin: a controller gives each Windows pod an address of the VPC, in an annotation.

    Sources: aws/amazon-vpc-cni-plugins plugins/vpc-bridge; aws/amazon-vpc-resource-controller-k8s.
    """

    type = "vpc-bridge"
    network = "vpcbr0a1b2c3d4e5f"
    kube_network = "vpc.*"
    endpoint = "cid-{sandbox}"
    installation = "AmazonVPC"
    on_linux = "aws-cni"
    pod_prefix = "eni"
    cni_file = "vpc-bridge.conf"

    def configuration(self) -> dict[str, Any]:
        network = self.profile.network
        return {
            "cniVersion": "0.3.1",
            "name": "vpc",
            "type": self.type,
            "capabilities": {"io.kubernetes.cri.pod-annotations": True},
            "vpcCIDRs": [network.pod_cidr, network.node_cidr],
            "serviceCIDR": network.service_cidr,
            "dns": self._dns(),
        }

    def endpoint_policies(self) -> tuple[Policy, ...]:
        return tuple(dict(policy["Value"]) for policy in self._policies())

    def admit(self, pod: dict[str, Any]) -> None:
        """Make a pod that names Windows in its nodeSelector request an address of the VPC
        (vpc-resource-mutating-webhook); node affinity and nodeName do not count."""
        spec = pod["spec"]
        selected = (spec.get("nodeSelector") or {}).get("kubernetes.io/os")
        if selected != "windows" or spec.get("hostNetwork"):
            return
        resources = spec["containers"][0].setdefault("resources", {})
        for name in ("limits", "requests"):
            resources[name] = {**(resources.get(name) or {}), VPC_ADDRESS: "1"}

    def refusal(self, pod: Mapping[str, Any]) -> str:
        """Return the plugin's message for a pod without annotation, which means that nobody
        requested an address from the controller."""
        resources = pod["spec"]["containers"][0].get("resources") or {}
        return "" if VPC_ADDRESS in (resources.get("limits") or {}) else NO_LABEL

    def full(self, machine: Machine) -> str:
        """Return the message of vpc-bridge, which reads the address from the controller's
        annotation (aws/containers-roadmap#463), or on Linux the message of aws-cni."""
        without = "add cmd: failed to assign an IP address to container"
        return NO_LABEL if machine.os == "windows" else without

    def pod_annotations(self, address: str) -> dict[str, str]:
        return {VPC_ADDRESS: f"{address}/24"}

    def objects(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the setting that makes the controller serve Windows."""
        data = {"enable-windows-ipam": "true", "enable-windows-prefix-delegation": "false"}
        metadata = {"name": "amazon-vpc-cni", "namespace": "kube-system"}
        found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        return [("configmaps", found)]


class Flannel(Plugin):
    """flannel's host-gw plugin, which delegates to win-bridge; flanneld creates the HNS network
    when it starts.

    Sources: flannel-io/flannel pkg/backend/hostgw/hostgw_windows.go; flannel-io/cni-plugin.
    """

    type = "flannel"
    network = "cbr0"
    kube_network = "cbr0.*"
    host_endpoint = "cbr0_ep"
    made_by_hand = True
    cni_file = "10-flannel.conf"

    def configuration(self) -> dict[str, Any]:
        return {
            "cniVersion": "0.3.0",
            "name": self.network,
            "type": self.type,
            "capabilities": {"dns": True},
            "delegate": self.delegate(),
        }

    def delegate(self) -> dict[str, Any]:
        """Return the configuration of the plugin that connects the pod."""
        return {
            "type": "win-bridge",
            "loopbackDSR": self.profile.kube_proxy.windows_dsr,
            "policies": self._policies(),
        }

    def node_annotations(self, machine: Machine) -> dict[str, str]:
        """Return the annotations that flanneld writes on its node. From these annotations every
        other flanneld sets its route to the node."""
        return {
            f"{ANNOTATIONS}/backend-type": "host-gw",
            f"{ANNOTATIONS}/backend-data": "null",
            f"{ANNOTATIONS}/public-ip": machine.address,
            f"{ANNOTATIONS}/kube-subnet-manager": "true",
        }


PLUGINS: dict[str, type[Plugin]] = {
    plugin.type: plugin for plugin in (Calico, WinBridge, AzureVnet, VpcBridge, Flannel)
}
