# SPDX-License-Identifier: Apache-2.0
"""The objects of Calico's own manifests, whose settings are in ConfigMaps.

Sources: projectcalico/calico manifests/calico-vxlan.yaml and manifests/calico-windows-vxlan.yaml of
v3.26, the last release with a manifest for Windows.
"""

import json
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.cluster.installs.shapes import (
    EVERYWHERE,
    config_map,
    container,
    daemon_set,
    host_process,
    service_account,
)
from hybridlab.networks.contract.cni_configuration import ipam
from hybridlab.networks.contract.plane import Declared, Plane
from hybridlab.profiles.machines import dns_address
from hybridlab.profiles.model import Profile

LINUX = "calico-config"
"""The name of calico-node's ConfigMap."""
WINDOWS_NAMESPACE = "calico-system"
WINDOWS = "calico-windows-config"
"""The name of calico-node-windows' ConfigMap."""
BACKEND = "CALICO_NETWORKING_BACKEND"
LINUX_BACKEND = f"configmap:{LINUX}/calico_backend"
"""The value of CALICO_NETWORKING_BACKEND on Linux, in the notation of ``shapes.container``."""
FELIX = "c:\\CalicoWindows\\calico-node.exe"


def linux_settings(profile: Profile, backend: str) -> tuple[str, Obj]:
    """Return the ConfigMap of calico-node on Linux; ``backend``: its networking backend."""
    plugin: dict[str, Any] = {
        "type": "calico",
        "datastore_type": "kubernetes",
        "mtu": "__CNI_MTU__",
        "ipam": ipam(profile),
        "policy": {"type": "k8s"},
        "kubernetes": {"kubeconfig": "__KUBECONFIG_FILEPATH__"},
    }
    cni = {"name": "k8s-pod-network", "cniVersion": "0.3.1", "plugins": [plugin]}
    data = {
        "typha_service_name": "none",
        "calico_backend": backend,
        "veth_mtu": str(profile.network.calico_mtu or 0),
        # the file has a number here: the template puts no quotes around the placeholder
        "cni_network_config": json.dumps(cni, indent=2).replace('"__CNI_MTU__"', "__CNI_MTU__"),
    }
    return config_map(LINUX, "kube-system", data)


def on_windows(profile: Profile, plane: Plane, declared: Declared) -> list[tuple[str, Obj]]:
    """Return Calico's objects for Windows nodes in HostProcess containers as (resource, object)."""
    data = {
        BACKEND: plane.environment("windows", declared)[BACKEND],
        "KUBERNETES_SERVICE_HOST": "",
        "KUBERNETES_SERVICE_PORT": "",
        "K8S_SERVICE_CIDR": profile.network.service_cidr,
        "DNS_NAME_SERVERS": dns_address(profile),
        "CNI_BIN_DIR": "c:\\opt\\cni\\bin",
        "CNI_CONF_DIR": "c:" + profile.windows.cni_config_dir.replace("/", "\\"),
        "FELIX_HEALTHENABLED": "true",
    }
    ready = {
        "exec": {"command": [FELIX, "-felix-ready"]},
        "timeoutSeconds": 10,
        "periodSeconds": 10,
    }
    spec = host_process(
        [
            _container(profile, "node", ".\\node\\node-service.ps1"),
            _container(profile, "felix", ".\\felix\\felix-service.ps1") | {"readinessProbe": ready},
            *(
                _container(profile, program, f".\\{script.replace('/', chr(92))}")
                for program, script in plane.windows_containers().items()
            ),
        ],
        initContainers=[_container(profile, "install", ".\\host-process-install.ps1")],
        serviceAccountName="calico-node",
        tolerations=EVERYWHERE,
    )
    name = "calico-node-windows"
    return [
        service_account("calico-node", WINDOWS_NAMESPACE),
        config_map(WINDOWS, WINDOWS_NAMESPACE, data),
        ("daemonsets.apps", daemon_set(name, WINDOWS_NAMESPACE, {"k8s-app": name}, spec)),
    ]


def _container(profile: Profile, name: str, script: str) -> Obj:
    image = f"calico/windows:{profile.calico.on('windows')}"
    made = container(name, image, args=[script], env={"NODENAME": "field:spec.nodeName"})
    return made | {"envFrom": [{"configMapRef": {"name": WINDOWS}}]}
