# SPDX-License-Identifier: Apache-2.0
"""The two axes of an installation: how Calico got onto the cluster, and whose cluster it is.

They are independent, and compared nowhere else: everything that follows from one of them is a field here.
"""

from dataclasses import dataclass, field

from hybridlab.profiles.model import Profile


@dataclass(frozen=True, kw_only=True)
class Install:
    """A way of installing Calico."""

    operator: bool = False
    """Tigera's operator laid it, and keeps it as its own objects say."""
    namespace: str = "kube-system"
    """Where its workloads are."""
    windows_pods: bool = True
    """On Windows nodes it runs in pods; otherwise as services of the host, without a pod."""
    windows_services: tuple[str, ...] = ("CalicoFelix", "CalicoNode")
    """Windows services that are there; an operator runs the same scripts in HostProcess containers."""
    cni_file: str = "10-calico.conf"
    """Name of the CNI configuration on Windows nodes."""


@dataclass(frozen=True, kw_only=True)
class Provider:
    """Whose cluster it is."""

    name: str = ""
    """As Calico's operator calls it."""
    cluster_type: tuple[str, ...] = ()
    """What ClusterInformation says of it."""
    own_control_plane: bool = True
    """Machines of the cluster run the control plane; otherwise it is out of sight."""
    dns_labels: dict[str, str] = field(default_factory=dict)
    """Labels of the DNS Service besides those of every cluster."""
    kube_proxy_configured: bool = False
    """There is kubeadm's ConfigMap of kube-proxy even where kube-proxy is a service on Windows nodes."""
    kube_proxy_service: str = "kube-proxy"
    """Windows service that kube-proxy is, where it is one; empty: the agent starts it as a child of its own."""
    kube_proxy_program: str = "c:\\k\\kube-proxy.exe"


_INSTALLS = {
    "operator": Install(
        operator=True, namespace="calico-system", windows_services=(), cni_file="10-calico.conflist"
    ),
    "manifest": Install(),
    "services": Install(windows_pods=False),
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
    "RKE2": Provider(
        name="RKE2",
        kube_proxy_service="",
        kube_proxy_program="c:\\var\\lib\\rancher\\rke2\\bin\\kube-proxy.exe",
    ),
}


def install_of(profile: Profile) -> Install:
    """How Calico got onto this cluster."""
    return _INSTALLS[profile.calico.install]


def kube_proxy_service(profile: Profile) -> str:
    """The Windows service that kube-proxy is on this cluster; empty: it is none."""
    return provider_of(profile).kube_proxy_service if profile.kube_proxy.on_host else ""


def provider_of(profile: Profile) -> Provider:
    """Whose cluster this is."""
    return _PROVIDERS[profile.kubernetes.provider]
