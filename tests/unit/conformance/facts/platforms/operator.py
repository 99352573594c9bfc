# SPDX-License-Identifier: Apache-2.0
"""Calico as its operator renders it from an Installation: DaemonSets, their ConfigMaps and their pods.

After tigera/operator pkg/render/windows.go and pkg/render/node.go at
40788b9b6bef9d94e77b2e0d7a5eed7e17e2364c (Apache-2.0): the containers, their commands, and every
variable whose value follows from the Installation. KUBE_NETWORK follows from the plugin since
operator v1.34 (Calico v3.28); before, it followed from the provider (tigera/operator#3165).
Selectors and labels are those that pkg/controller/utils/component.go gives every workload.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

Obj = dict[str, Any]

PROVIDERS = {"OpenShift": ",openshift", "EKS": ",ecs", "GKE": ",gke", "AKS": ",aks"}
"""Map each provider to its part of CLUSTER_TYPE."""
NETWORKS = {"AzureVNET": "azure.*", "AmazonVPC": "vpc.*"}
"""Map each plugin to KUBE_NETWORK."""
PREFIXES = {"AmazonVPC": "eni", "AzureVNET": "azv", "GKE": "gke"}
SCRIPTS = "$env:CONTAINER_SANDBOX_MOUNT_POINT/CalicoWindows"
ENTERPRISE = ("TigeraSecureEnterprise", "CalicoEnterprise")


def rendered(installation: Obj, nodes: Mapping[str, str]) -> Iterator[Obj]:
    """Yield the operator's objects in the form of the cluster files; ``nodes`` maps names to
    operating systems."""
    spec, version = installation["spec"], installation["status"]["calicoVersion"]
    yield from _workload(
        "calico-node", spec, version, [name for name, os in nodes.items() if os == "linux"]
    )
    if spec["calicoNetwork"].get("windowsDataplane") == "HNS":
        there = [name for name, os in nodes.items() if os == "windows"]
        yield from _workload("calico-node-windows", spec, version, there)


def _workload(name: str, spec: Obj, version: str, nodes: list[str]) -> Iterator[Obj]:
    windows = name == "calico-node-windows"
    calico = spec["cni"]["type"] == "Calico"
    suffix = "-windows" if windows else ""
    node, cni = (_image(spec, kind, version) for kind in (f"node{suffix}", f"cni{suffix}"))
    labels = {"k8s-app": name, "app.kubernetes.io/name": name}
    init, containers = _windows(spec, node) if windows else _linux(spec, node)
    if calico:
        reference = {"configMapKeyRef": {"name": f"cni-config{suffix}", "key": "config"}}
        env = {
            "CNI_CONF_NAME": "10-calico.conflist",
            "SLEEP": "false",
            "CNI_NETWORK_CONFIG": reference,
        }
        if windows:
            env |= {
                "VXLAN_VNI": "4096",
                "KUBERNETES_SERVICE_CIDRS": ",".join(spec.get("serviceCIDRs", [])),
            }
        init.append({"name": "install-cni", "image": cni, "env": env})
        yield {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": f"cni-config{suffix}", "namespace": "calico-system"},
            "data": {"config": _configuration(spec, windows)},
        }  # fmt: skip
    owner = {
        "apiVersion": "operator.tigera.io/v1",
        "kind": "Installation",
        "name": "default",
        "controller": True,
    }
    yield {
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "calico-system", "ownerReferences": [owner]},
        "selector": {"matchLabels": {"k8s-app": name}},
        "pod": {
            "nodeSelector": {"kubernetes.io/os": "windows" if windows else "linux"}, "hostNetwork": True,
            **(_overrides(spec) if windows else {}),
        },
        "initContainers": init, "containers": containers,
    }  # fmt: skip
    for at in nodes:
        yield {
            "kind": "Pod", "name": f"{name}-x8v2f-{at}", "namespace": "calico-system", "node": at, "labels": labels,
            "containers": [{"name": one["name"], "image": one["image"]} for one in containers],
        }  # fmt: skip


def _overrides(spec: Obj) -> Obj:
    """Return the additional settings of the owner for pods on Windows."""
    template: Obj = spec.get("calicoNodeWindowsDaemonSet", {}).get("spec", {}).get("template", {})
    found: Obj = template.get("spec", {})
    return found


def _windows(spec: Obj, image: str) -> tuple[list[Obj], list[Obj]]:
    services = {"felix": "felix-service.ps1", "node": "node-service.ps1"}
    if _bgp(spec):
        services["confd"] = "confd/confd-service.ps1"
    init: list[Obj] = [
        {"name": "uninstall-calico", "image": image,
         "args": ["$env:CONTAINER_SANDBOX_MOUNT_POINT/uninstall-calico.ps1"], "env": {"SLEEP": "false"}}
    ]  # fmt: skip
    env = _environment(spec) | {
        "CNI_PLUGIN_TYPE": spec["cni"]["type"], "VXLAN_VNI": "4096", "VXLAN_ADAPTER": "",
        "KUBE_NETWORK": NETWORKS.get(spec["cni"]["type"], "Calico.*"),
        "CALICO_NETWORKING_BACKEND": "windows-bgp" if _bgp(spec) else _without_bgp(spec),
    }  # fmt: skip
    env["CLUSTER_TYPE"] += ",windows"
    return init, [
        {"name": name, "image": image, "args": [f"{SCRIPTS}/{script}"], "env": env}
        for name, script in services.items()
    ]


def _linux(spec: Obj, image: str) -> tuple[list[Obj], list[Obj]]:
    env = _environment(spec) | {
        "NO_DEFAULT_POOLS": "true", "CALICO_NETWORKING_BACKEND": "bird" if _bgp(spec) else _without_bgp(spec),
    }  # fmt: skip
    if prefix := PREFIXES.get(spec["cni"]["type"]):
        env["FELIX_INTERFACEPREFIX"] = prefix
    return [], [{"name": "calico-node", "image": image, "env": env}]


def _environment(spec: Obj) -> dict[str, Any]:
    """Return the environment of calico-node on either operating system."""
    cni, provider = spec["cni"], spec.get("kubernetesProvider", "")
    found: dict[str, Any] = {
        "DATASTORE_TYPE": "kubernetes", "WAIT_FOR_DATASTORE": "true",
        "CLUSTER_TYPE": f"k8s,operator{PROVIDERS.get(provider, '')}{',bgp' if _bgp(spec) else ''}",
        "FELIX_HEALTHENABLED": "true", "CALICO_MANAGE_CNI": str(cni["type"] == "Calico").lower(),
    }  # fmt: skip
    if cni["ipam"]["type"] == "HostLocal":
        found["USE_POD_CIDR"] = "true"
    if cni["type"] != "Calico":
        found["FELIX_ROUTESOURCE"] = "WorkloadIPs"
    return found


def _bgp(spec: Obj) -> bool:
    return bool(spec["calicoNetwork"].get("bgp") == "Enabled")


def _without_bgp(spec: Obj) -> str:
    return (
        "vxlan"
        if spec["cni"]["type"] == "Calico" and spec["cni"]["ipam"]["type"] != "HostLocal"
        else "none"
    )


def _configuration(spec: Obj, windows: bool) -> str:
    ipam = "host-local" if spec["cni"]["ipam"]["type"] == "HostLocal" else "calico-ipam"
    plugin: Obj = {
        "type": "calico",
        "datastore_type": "kubernetes",
        "ipam": {"type": ipam},
        "mtu": 0,
    }
    if windows:
        mode = "windows-bgp" if _bgp(spec) else _without_bgp(spec)
        plugin |= {
            "name": "Calico",
            "windows_use_single_network": True,
            "mode": mode,
            "vxlan_vni": 4096,
        }
        plugin["ipam"]["subnet"] = "usePodCidr"
    return json.dumps(
        {
            "name": "Calico" if windows else "k8s-pod-network",
            "cniVersion": "0.3.1",
            "plugins": [plugin],
        }
    )


def _image(spec: Obj, kind: str, version: str) -> str:
    """Return the name of an image; Enterprise's nodes were called ``cnx-node`` before 3.22
    (tigera/docs releases.json)."""
    is_enterprise = spec["variant"] in ENTERPRISE
    release = tuple(int(part) for part in version.lstrip("v").split(".")[:2])
    before = "cnx-" if is_enterprise and release < (3, 22) and kind.startswith("node") else ""
    path = spec.get("imagePath", "tigera" if is_enterprise else "calico")
    prefix = spec.get("imagePrefix", "")
    return f"{spec.get('registry', 'quay.io')}/{path}/{prefix}{before}{kind}:{version}"
