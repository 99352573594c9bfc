# SPDX-License-Identifier: Apache-2.0
"""The two properties of an installation: the method that installed Calico, and the cluster's
provider.

The two properties are independent, and no other module compares them: every consequence of either
property is a field here.
"""

from dataclasses import dataclass, field

from hybridlab.profiles.model import Profile


@dataclass(frozen=True, kw_only=True)
class Install:
    """A way of installing Calico."""

    operator: bool = False
    """True: Tigera's operator installed Calico, and keeps it in the state that the operator's
    objects declare."""
    namespace: str = "kube-system"
    """The namespace of Calico's workloads."""
    windows_pods: bool = True
    """True: on Windows nodes Calico runs in pods; False: as processes of the host, without a
    pod."""
    windows_services: tuple[str, ...] = ("CalicoFelix", "CalicoNode")
    """The Windows services that exist; an operator runs the same scripts in HostProcess containers.
    """
    windows_folder: str = "C:\\hpc\\CalicoWindows"
    """The folder of Felix' program on a Windows host; in HostProcess containers, the folder in the
    image."""
    felix_restarts: bool = True
    """True: on Windows, Felix is started again when its process has ended."""
    cni_file: str = "10-calico.conf"
    """The name of the CNI configuration on Windows nodes."""


@dataclass(frozen=True, kw_only=True)
class Provider:
    """The provider of the cluster."""

    name: str = ""
    """The provider's name in Calico's operator."""
    cluster_type: tuple[str, ...] = ()
    """The cluster type in ClusterInformation."""
    own_control_plane: bool = True
    """True: machines of the cluster run the control plane; False: the control plane is not
    visible."""
    dns_labels: dict[str, str] = field(default_factory=dict)
    """Labels of the DNS Service in addition to the labels that every cluster has."""
    kube_proxy_configured: bool = False
    """True: kubeadm's ConfigMap of kube-proxy exists even if kube-proxy is a service on Windows
    nodes."""
    calico_images: str = "quay.io/calico/"
    """The beginning of the names of Calico's images."""
    operator_image: str = "quay.io/tigera/operator"
    kube_proxy_service: str = "kube-proxy"
    """The Windows service of kube-proxy, if it is a service; empty: the agent starts it as a child
    process."""
    kube_proxy_program: str = "c:\\k\\kube-proxy.exe"


_INSTALLS = {
    "operator": Install(
        operator=True, namespace="calico-system", windows_services=(), cni_file="10-calico.conflist"
    ),
    "manifest": Install(),
    "services": Install(windows_pods=False, windows_folder="C:\\CalicoWindows"),
    "agent": Install(  # rancher/rke2 pkg/windows/calico.go; rke2#9324: nothing starts Felix again
        operator=True,
        namespace="calico-system",
        windows_pods=False,
        windows_services=(),
        windows_folder="C:\\var\\lib\\rancher\\rke2\\bin",
        felix_restarts=False,
    ),
    "platform": Install(
        operator=True,
        namespace="calico-system",
        windows_pods=False,
        windows_folder="C:\\CalicoWindows",
    ),
}  # fmt: skip
_PROVIDERS = {
    "none": Provider(kube_proxy_configured=True),
    "EKS": Provider(
        name="EKS",
        cluster_type=("ecs",),
        own_control_plane=False,
        dns_labels={"eks.amazonaws.com/component": "kube-dns"},
        kube_proxy_program='"C:\\Program Files\\kubernetes\\kube-proxy.exe"',
    ),
    "AKS": Provider(name="AKS", cluster_type=("aks",), kube_proxy_service="kubeproxy"),
    "OpenShift": Provider(
        name="OpenShift", cluster_type=("openshift",), kube_proxy_configured=True
    ),
    "RKE2": Provider(  # its chart names no provider (rke2-charts rke2-calico values.yaml)
        calico_images="docker.io/rancher/mirrored-calico-",
        operator_image="docker.io/rancher/mirrored-calico-operator",
        kube_proxy_service="",
        kube_proxy_program="c:\\var\\lib\\rancher\\rke2\\bin\\kube-proxy.exe",
    ),
}


def install_of(profile: Profile) -> Install:
    """Return the method that installed Calico on this cluster."""
    return _INSTALLS[profile.calico.install]


def kube_proxy_service(profile: Profile) -> str:
    """Return the Windows service of kube-proxy on this cluster; return an empty string if
    kube-proxy is no service there."""
    return provider_of(profile).kube_proxy_service if profile.kube_proxy.on_host else ""


def provider_of(profile: Profile) -> Provider:
    """Return the provider of this cluster."""
    return _PROVIDERS[profile.kubernetes.provider]
