# SPDX-License-Identifier: Apache-2.0
"""kube-proxy's objects for both operating systems, for each way in which clusters install
kube-proxy on Windows.

Sources: kubernetes/kubernetes cmd/kubeadm/app/phases/addons/proxy (ConfigMap and DaemonSet for
Linux); kubernetes-sigs/sig-windows-tools hostprocess/calico/kube-proxy (DaemonSet for Windows).
"""

from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.cluster.installs.axes import provider_of
from hybridlab.cluster.installs.shapes import (
    EVERYWHERE,
    config_map,
    container,
    daemon_set,
    host_process,
    pod_spec,
    service_account,
)
from hybridlab.networks.contract.plane import Plane
from hybridlab.profiles.machines import enables_dsr, machines
from hybridlab.profiles.model import Profile

NAMESPACE = "kube-system"
REGISTRY = "registry.k8s.io"
WINDOWS = "kube-proxy-windows"
"""The name of the DaemonSet, and the ``k8s-app`` label of its pods."""
START_SCRIPT = "$env:CONTAINER_SANDBOX_MOUNT_POINT/kube-proxy/start.ps1"
COMMON: dict[str, Any] = {
    "priorityClassName": "system-node-critical",
    "tolerations": EVERYWHERE,
    "serviceAccountName": "kube-proxy",
}


def objects(profile: Profile, plane: Plane) -> list[tuple[str, Obj]]:
    """Return kube-proxy's objects as (resource, object), in the order of their creation."""
    return [
        service_account("kube-proxy", NAMESPACE),
        *_configuration(profile),
        ("daemonsets.apps", _linux(profile)),
        *(("daemonsets.apps", found) for found in _on_windows(profile, plane)),
    ]


def _configuration(profile: Profile) -> list[tuple[str, Obj]]:
    """Return kubeadm's ConfigMap. It is for Linux: on Windows nothing reads its DSR settings."""
    if not provider_of(profile).kube_proxy_configured and profile.kube_proxy.on_host:
        return []
    text = (
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
        f"clusterCIDR: {profile.network.pod_cidr}\nmode: iptables\n"
        "winkernel:\n  enableDSR: false\n  networkName: Calico\n"
    )
    return [config_map("kube-proxy", NAMESPACE, {"config.conf": text})]


def _linux(profile: Profile) -> Obj:
    made = container(
        "kube-proxy",
        f"{REGISTRY}/kube-proxy:{profile.kubernetes.version}",
        command=[
            "/usr/local/bin/kube-proxy",
            "--config=/var/lib/kube-proxy/config.conf",
            "--hostname-override=$(NODE_NAME)",
        ],
        env={"NODE_NAME": "field:spec.nodeName"},
    )
    spec = pod_spec("linux", [made], hostNetwork=True, **COMMON)
    return daemon_set("kube-proxy", NAMESPACE, {"k8s-app": "kube-proxy"}, spec)


def _on_windows(profile: Profile, plane: Plane) -> list[Obj]:
    match profile.kube_proxy.windows:
        case "service" | "configuration":
            return []
        case "sig-windows-tools":
            return [_sig_windows_tools(profile)]
    windows = [machine for machine in machines(profile) if machine.os == "windows"]
    by_flag = {
        flag: [machine.name for machine in windows if enables_dsr(profile, machine) is flag]
        for flag in (True, False)
    }
    if not (by_flag[True] and by_flag[False]):
        dsr = bool(by_flag[True]) or (profile.kube_proxy.windows_dsr and not windows)
        return [
            daemon_set(
                WINDOWS, NAMESPACE, {"k8s-app": WINDOWS}, _with_arguments(profile, plane, dsr=dsr)
            )
        ]
    return [_for_nodes(profile, plane, nodes, dsr=dsr) for dsr, nodes in by_flag.items()]


def _for_nodes(profile: Profile, plane: Plane, nodes: list[str], *, dsr: bool) -> Obj:
    """Return the DaemonSet for nodes with, or without, direct server return. Two DaemonSets are
    needed because a pod template has a single list of arguments."""
    labels = {"k8s-app": WINDOWS, "dsr": "on" if dsr else "off"}
    term = {
        "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}]
    }
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
    }
    spec = {**_with_arguments(profile, plane, dsr=dsr), "affinity": affinity}
    return daemon_set(WINDOWS if dsr else f"{WINDOWS}-no-dsr", NAMESPACE, labels, spec)


def _with_arguments(profile: Profile, plane: Plane, *, dsr: bool) -> Obj:
    made = container(
        "kube-proxy",
        _windows_image(profile),
        command=["kube-proxy.exe"],
        args=[
            "--kubeconfig=/var/lib/kube-proxy/kubeconfig.conf",
            "--hostname-override=$(NODE_NAME)",
            "--proxy-mode=kernelspace",
            *plane.kube_proxy("$(SOURCE_VIP)").flags,
            *(["--enable-dsr=true", "--feature-gates=WinDSR=true"] if dsr else []),
        ],
        env={
            "NODE_NAME": "field:spec.nodeName",
            "POD_IP": "field:status.podIP",
            "KUBE_NETWORK": plane.kube_network,
            "SOURCE_VIP": "Calico_ep",
        },
    )
    return host_process([made], **COMMON)


def _sig_windows_tools(profile: Profile) -> Obj:
    """Return the DaemonSet of hostprocess/calico/kube-proxy/kube-proxy.yml: the image's entrypoint
    is PowerShell."""
    made = container(
        "kube-proxy",
        _windows_image(profile),
        args=[START_SCRIPT],
        env={"NODE_NAME": "field:spec.nodeName", "POD_IP": "field:status.podIP"},
    )
    made |= {
        "imagePullPolicy": "Always",
        "workingDir": "$env:CONTAINER_SANDBOX_MOUNT_POINT/kube-proxy/",
        "volumeMounts": [{"mountPath": "/var/lib/kube-proxy", "name": "kube-proxy"}],
    }
    tolerations = [{"key": "CriticalAddonsOnly", "operator": "Exists"}, {"operator": "Exists"}]
    volumes = [{"configMap": {"name": "kube-proxy"}, "name": "kube-proxy"}]
    spec = host_process(
        [made], serviceAccountName="kube-proxy", tolerations=tolerations, volumes=volumes
    )
    found = daemon_set(WINDOWS, NAMESPACE, {"k8s-app": WINDOWS}, spec)
    found["metadata"]["labels"] = {"k8s-app": "kube-proxy"}
    return found


def _windows_image(profile: Profile) -> str:
    return f"sigwindowstools/kube-proxy:{profile.kubernetes.version}-calico-hostprocess"
