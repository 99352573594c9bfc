# SPDX-License-Identifier: Apache-2.0
"""The operator's objects: Installation, TigeraStatus, APIServer, and the ConfigMaps that the
operator reads and renders.

Sources: tigera/operator api/v1, pkg/controller/{installation,windows} and pkg/render/windows.go.
"""

import json
from datetime import UTC, datetime
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.cluster.installs.axes import install_of, provider_of
from hybridlab.networks.contract.cni_configuration import ipam, windows_cni
from hybridlab.networks.contract.plane import Declared, Plane
from hybridlab.profiles.machines import API_PORT, control_plane
from hybridlab.profiles.model import Profile

OPERATOR_VERSION = "operator.tigera.io/v1"
IPAM = {"calico-ipam": "Calico", "host-local": "HostLocal"}
"""The value of ``.spec.cni.ipam.type`` for each IPAM plugin. A platform's IPAM is missing here: its
value is that of ``.spec.cni.type``."""
NOT_STRICT = (
    "Invalid StrictAffinity, it must be set to 'true' when using Calico IPAM on Windows: StrictAffinity is false, it "
    "must be set to 'true' in the default IPAMConfiguration when using Calico IPAM on Windows"
)


def has_windows(profile: Profile) -> bool:
    """Return whether the cluster has Windows nodes that Calico's own objects mention. The operator
    mentions no Windows nodes if an agent runs Calico on them."""
    install = install_of(profile)
    is_known = install.windows_pods or not install.operator
    return is_known and any(group.os == "windows" for group in profile.nodes)


def renders_windows(profile: Profile) -> bool:
    """Return whether the operator installs Calico on Windows nodes."""
    return has_windows(profile) and install_of(profile).windows_pods


def objects(profile: Profile, plane: Plane) -> list[tuple[str, Obj]]:
    """Return all objects of the operator as (resource, object); an object's status is its
    subresource."""
    made = [("configmaps", obj) for obj in config_maps(profile, plane)]
    made.append(("installations.operator.tigera.io", installation(profile, plane)))
    if profile.calico.v3_api:
        made.append(("apiservers.operator.tigera.io", api_server()))
    return [
        *made,
        *(("tigerastatuses.operator.tigera.io", obj) for obj in tigera_statuses(profile)),
    ]


def windows_status(profile: Profile, *, strict_affinity: bool) -> Obj:
    """Return the TigeraStatus ``calico-windows``; it is degraded if the operator does not render
    calico-node-windows."""
    fine = strict_affinity or profile.network.ipam != "calico-ipam"
    return tigera_status("calico-windows", "" if fine else NOT_STRICT)


def installation(profile: Profile, plane: Plane) -> Obj:
    """Return the Installation ``default``, including its status."""
    network = profile.network
    calico = profile.calico
    declared = plane.declared()
    spec: dict[str, Any] = {
        "variant": "Calico",
        "kubernetesProvider": provider_of(profile).name,
        "cni": {"type": declared.cni, "ipam": {"type": IPAM.get(network.ipam, declared.cni)}},
        "calicoNetwork": {
            "bgp": declared.bgp,
            "hostPorts": "Enabled",
            "linuxDataplane": "Nftables",
            "linuxPolicySetupTimeoutSeconds": 0,
            "mtu": network.calico_mtu or 0,
            "multiInterfaceMode": "None",
            "nodeAddressAutodetectionV4": {"firstFound": True},
            "windowsDataplane": "HNS" if renders_windows(profile) else "Disabled",
            "ipPools": [
                {
                    "name": "default-ipv4-ippool",
                    "cidr": network.pod_cidr,
                    "blockSize": network.block_size,
                    "encapsulation": declared.encapsulation,
                    "natOutgoing": "Enabled" if network.nat_outgoing else "Disabled",
                    "nodeSelector": "all()",
                    "disableBGPExport": False,
                    "allowedUses": ["Workload", "Tunnel"],
                    "assignmentMode": "Automatic",
                }
            ],
        },
        "controlPlaneReplicas": 2,
        "flexVolumePath": "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
        "kubeletVolumePluginPath": "/var/lib/kubelet",
        "nodeUpdateStrategy": {"rollingUpdate": {"maxUnavailable": 1}, "type": "RollingUpdate"},
        "nonPrivileged": "Disabled",
        "serviceCIDRs": [network.service_cidr],
    }
    if declared.cni != "Calico":
        del spec["calicoNetwork"]["ipPools"]
    if renders_windows(profile):
        spec["windowsNodes"] = {
            "cniBinDir": "/opt/cni/bin",
            "cniConfigDir": profile.windows.cni_config_dir,
            "cniLogDir": "/var/log/calico/cni",
            **declared.windows_nodes,
        }
    return {
        "apiVersion": OPERATOR_VERSION,
        "kind": "Installation",
        "metadata": {"name": "default"},
        "spec": spec,
        "status": {
            "calicoVersion": calico.version,
            "computed": spec,
            "imageSet": "",
            "mtu": plane.mtu(network.calico_mtu),
            "variant": "Calico",
        },
    }


def tigera_status(name: str, problem: str = "") -> Obj:
    """Return a TigeraStatus: available, or degraded by a problem."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def condition(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
        return {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
            "observedGeneration": 1,
        }

    if problem:
        reason = (
            "InvalidConfigurationError"
            if problem.startswith("Invalid Installation")
            else "ResourceReadError"
        )
        conditions = [
            condition("Available", "False", "NotReady", ""),
            condition("Degraded", "True", reason, problem),
            condition("Progressing", "False", "NotReady", ""),
        ]
    else:
        conditions = [
            condition("Available", "True", "AllObjectsAvailable", "All objects available"),
            condition("Degraded", "False", "AllObjectsAvailable", "All objects available"),
            condition("Progressing", "False", "AllObjectsAvailable", "All objects available"),
        ]
    return {
        "apiVersion": OPERATOR_VERSION,
        "kind": "TigeraStatus",
        "metadata": {"name": name},
        "spec": {},
        "status": {"conditions": conditions},
    }


def tigera_statuses(profile: Profile) -> list[Obj]:
    """Return a TigeraStatus for every component on which the operator reports."""
    statuses = [tigera_status("calico"), tigera_status("ippools")]
    if profile.calico.v3_api:
        statuses.append(tigera_status("apiserver"))
    if renders_windows(profile):
        statuses.append(windows_status(profile, strict_affinity=profile.network.strict_affinity))
    return statuses


def api_server() -> Obj:
    """Return the APIServer ``default``, which makes the operator serve projectcalico.org/v3."""
    return {
        "apiVersion": OPERATOR_VERSION,
        "kind": "APIServer",
        "metadata": {"name": "default"},
        "spec": {},
        "status": {"state": "Ready"},
    }


def config_maps(profile: Profile, plane: Plane) -> list[Obj]:
    """Return the operator's ConfigMaps, including the ConfigMap by which the operator reaches the
    API server without kube-proxy."""
    reaching = {
        "KUBERNETES_SERVICE_HOST": control_plane(profile).address,
        "KUBERNETES_SERVICE_PORT": str(API_PORT),
    }
    found = _config_map("tigera-operator", "kubernetes-services-endpoint", reaching)
    return [found, *cni_config_maps(profile, plane, plane.declared())]


def cni_config_maps(profile: Profile, plane: Plane, declared: Declared) -> list[Obj]:
    """Return the CNI configurations that the operator renders and ``install-cni`` writes on the
    nodes; return an empty list if the plugin is the platform's."""
    if declared.cni != "Calico":
        return []
    maps = [
        _config_map(
            "calico-system", "cni-config", {"config": json.dumps(_linux_cni(profile), indent=2)}
        )
    ]
    if renders_windows(profile):
        plugin = plane.cni_plugin(plane.environment("windows", declared))
        config = json.dumps(windows_cni(profile, plugin), indent=2)
        maps.append(_config_map("calico-system", "cni-config-windows", {"config": config}))
    return maps


def _config_map(namespace: str, name: str, data: dict[str, str]) -> Obj:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _linux_cni(profile: Profile) -> dict[str, Any]:
    by_node = profile.network.ipam == "host-local"
    return {
        "name": "k8s-pod-network",
        "cniVersion": "0.3.1",
        "plugins": [
            {
                "type": "calico",
                "datastore_type": "kubernetes",
                "mtu": profile.network.calico_mtu or 0,
                "nodename_file_optional": False,
                "log_level": "Info",
                "log_file_path": "/var/log/calico/cni/cni.log",
                "ipam": ipam(profile)
                | ({} if by_node else {"assign_ipv4": "true", "assign_ipv6": "false"}),
                "container_settings": {"allow_ip_forwarding": False},
                "policy": {"type": "k8s"},
                "policy_setup_timeout_seconds": 0,
                "kubernetes": {"kubeconfig": "/etc/cni/net.d/calico-kubeconfig"},
            },
            {"type": "bandwidth", "capabilities": {"bandwidth": True}},
            {"type": "portmap", "snat": True, "capabilities": {"portMappings": True}},
        ],
    }
