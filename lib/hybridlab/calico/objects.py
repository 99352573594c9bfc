"""Calico's own configuration objects: pools, tiers, Felix, BGP and IPAM settings, cluster information.

Filled from the profile, so that they agree with what the data plane gets.  The operator's objects are in
``installation``, IPAM's state in ``ipam_objects``.
"""

from __future__ import annotations

import uuid
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.calico.installation import has_windows
from hybridlab.calico.resources import CalicoResources
from hybridlab.policy.release import Release
from hybridlab.profiles.model import Profile

POOL_NAME = "default-ipv4-ippool"


def configuration(profile: Profile, resources: CalicoResources) -> list[tuple[str, Obj]]:
    """(resource, object) of everything that Calico is configured with."""
    network = profile.network
    specs: list[tuple[str, str, str, dict[str, Any]]] = [
        ("ippools", "IPPool", POOL_NAME, _pool(profile)),
        (
            "ipamconfigurations",
            "IPAMConfiguration",
            "default",
            {"strictAffinity": network.strict_affinity, "autoAllocateBlocks": True, "maxBlocksPerHost": 0},
        ),
        ("felixconfigurations", "FelixConfiguration", "default", _felix(profile)),
        (
            "bgpconfigurations",
            "BGPConfiguration",
            "default",
            {"nodeToNodeMeshEnabled": network.bgp == "Enabled", "asNumber": 64512, "logSeverityScreen": "Info"},
        ),
        ("clusterinformations", "ClusterInformation", "default", _cluster(profile)),
        ("kubecontrollersconfigurations", "KubeControllersConfiguration", "default", _KUBE_CONTROLLERS),
    ]
    release = Release(profile.calico.version)
    specs += [("tiers", "Tier", name, {"order": order, "defaultAction": end}) for name, order, end in release.tiers]
    return [
        (resources.name(plural), {**resources.head(plural, kind), "metadata": {"name": name}, "spec": spec})
        for plural, kind, name, spec in specs
        if resources.served(plural)
    ]


_PROVIDER_IN_CLUSTER_TYPE = {"EKS": ["ecs"], "AKS": ["aks"], "OpenShift": ["openshift"]}


def _pool(profile: Profile) -> dict[str, Any]:
    network = profile.network
    vxlan = {"VXLAN": "Always", "VXLANCrossSubnet": "CrossSubnet"}.get(network.encapsulation, "Never")
    ipip = "Always" if network.encapsulation == "IPIP" else network.ipip_mode
    return {
        "cidr": network.pod_cidr,
        "blockSize": network.block_size,
        "ipipMode": ipip,
        "vxlanMode": vxlan,
        "natOutgoing": network.nat_outgoing,
        "nodeSelector": "all()",
        "disableBGPExport": False,
        "allowedUses": ["Workload", "Tunnel"],
        "assignmentMode": "Automatic",
    }


def _felix(profile: Profile) -> dict[str, Any]:
    network = profile.network
    spec: dict[str, Any] = {
        "bpfConnectTimeLoadBalancing": "TCP",
        "bpfHostNetworkedNATWithoutCTLB": "Enabled",
        "bpfEnabled": False,
        "floatingIPs": "Disabled",
        "healthPort": 9099,
        "ipipEnabled": network.encapsulation == "IPIP" or network.ipip_mode != "Never",
        "logSeverityScreen": "Info",
        "nftablesMode": "Enabled",
        "reportingInterval": "0s",
        "vxlanVNI": network.vxlan_vni,
    }
    if network.vxlan_port != 4789:
        spec["vxlanPort"] = network.vxlan_port
    return spec


def _cluster(profile: Profile) -> dict[str, Any]:
    kind = ["typha", "kdd", "k8s"]
    if profile.calico.install == "operator":
        kind.append("operator")
    kind += _PROVIDER_IN_CLUSTER_TYPE.get(profile.kubernetes.provider, [])
    if profile.network.bgp == "Enabled":
        kind.append("bgp")
    if has_windows(profile):
        kind.append("windows")
    return {
        "calicoVersion": profile.calico.version,
        "clusterGUID": uuid.uuid5(uuid.NAMESPACE_DNS, profile.name).hex,
        "clusterType": ",".join(kind),
        "datastoreReady": True,
        "variant": "Calico",
    }


_KUBE_CONTROLLERS: dict[str, Any] = {
    "controllers": {
        "loadBalancer": {"assignIPs": "AllServices"},
        "namespace": {"reconcilerPeriod": "5m0s"},
        "node": {
            "hostEndpoint": {"autoCreate": "Disabled", "createDefaultHostEndpoint": "Enabled"},
            "leakGracePeriod": "15m0s",
            "reconcilerPeriod": "5m0s",
            "syncLabels": "Enabled",
        },
        "policy": {"reconcilerPeriod": "5m0s"},
        "serviceAccount": {"reconcilerPeriod": "5m0s"},
        "workloadEndpoint": {"reconcilerPeriod": "5m0s"},
    },
    "etcdV3CompactionPeriod": "10m0s",
    "healthChecks": "Enabled",
    "logSeverityScreen": "Info",
    "prometheusMetricsPort": 9094,
}
