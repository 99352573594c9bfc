# SPDX-License-Identifier: Apache-2.0
"""Calico's own configuration objects: pools, tiers, Felix, BGP and IPAM settings, cluster
information.

The objects are filled from the profile, so that they agree with the data plane. The operator's
objects are in ``installs.operator``, and IPAM's state is in ``ipam_objects``.
"""

import uuid
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.calico.resources import CalicoResources
from hybridlab.cluster.installs.axes import install_of, provider_of
from hybridlab.cluster.installs.operator import has_windows
from hybridlab.networks.contract.plane import Declared, Plane
from hybridlab.policy.release import Release
from hybridlab.profiles.model import Profile

POOL_NAME = "default-ipv4-ippool"


def configuration(
    profile: Profile, plane: Plane, resources: CalicoResources
) -> list[tuple[str, Obj]]:
    """Return Calico's configuration objects as (resource, object)."""
    network = profile.network
    declared = plane.declared()
    specs: list[tuple[str, str, str, dict[str, Any]]] = [
        *(("ippools", "IPPool", name, spec) for name, spec in _pools(profile, declared)),
        (
            "ipamconfigurations",
            "IPAMConfiguration",
            "default",
            {
                "strictAffinity": network.strict_affinity,
                "autoAllocateBlocks": True,
                "maxBlocksPerHost": 0,
            },
        ),
        ("felixconfigurations", "FelixConfiguration", "default", _felix(declared)),
        (
            "bgpconfigurations",
            "BGPConfiguration",
            "default",
            {
                "nodeToNodeMeshEnabled": declared.bgp == "Enabled" and declared.mesh,
                "asNumber": 64512,
                "logSeverityScreen": "Info",
            },
        ),
        *(("bgppeers", "BGPPeer", name, dict(spec)) for name, spec in declared.peers.items()),
        ("clusterinformations", "ClusterInformation", "default", _cluster(profile, declared)),
        (
            "kubecontrollersconfigurations",
            "KubeControllersConfiguration",
            "default",
            _KUBE_CONTROLLERS,
        ),
    ]
    release = Release(profile.calico.version)
    specs += [
        ("tiers", "Tier", name, {"order": order, "defaultAction": end})
        for name, order, end in release.tiers
    ]
    return [
        (
            resources.name(plural),
            {**resources.head(plural, kind), "metadata": {"name": name}, "spec": spec},
        )
        for plural, kind, name, spec in specs
        if resources.served(plural)
    ]


def _pools(profile: Profile, declared: Declared) -> list[tuple[str, dict[str, Any]]]:
    """Return every pool as (name, spec)."""
    if declared.pool is None:
        return []
    network = profile.network
    first = {
        "cidr": network.pod_cidr,
        "blockSize": network.block_size,
        **declared.pool,
        "natOutgoing": network.nat_outgoing,
        "nodeSelector": "all()",
        "disableBGPExport": False,
        "allowedUses": ["Workload", "Tunnel"],
        "assignmentMode": "Automatic",
    }
    more = (
        (f"pool-{number}", first | {"cidr": cidr}) for number, cidr in enumerate(network.pools, 2)
    )
    return [(POOL_NAME, first), *more]


def _felix(declared: Declared) -> dict[str, Any]:
    return {
        "bpfConnectTimeLoadBalancing": "TCP",
        "bpfHostNetworkedNATWithoutCTLB": "Enabled",
        "bpfEnabled": False,
        "floatingIPs": "Disabled",
        "healthPort": 9099,
        "ipipEnabled": False,
        "logSeverityScreen": "Info",
        "nftablesMode": "Enabled",
        "reportingInterval": "0s",
        **declared.felix,
    }


def _cluster(profile: Profile, declared: Declared) -> dict[str, Any]:
    kind = ["typha", "kdd", "k8s"]
    if install_of(profile).operator:
        kind.append("operator")
    kind += provider_of(profile).cluster_type
    if declared.bgp == "Enabled":
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
