# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' own workloads: control plane, CoreDNS, kube-proxy on both operating systems."""

from hybridlab.api.contract import Obj
from hybridlab.cluster.installs import kube_proxy
from hybridlab.cluster.installs.axes import provider_of
from hybridlab.cluster.installs.shapes import (
    CONTROL_PLANE,
    CRITICAL,
    config_map,
    container,
    deployment,
    pod_spec,
    service_account,
)
from hybridlab.networks.contract.plane import Plane
from hybridlab.profiles.machines import API_PORT, Machine, control_plane, dns_address, machines
from hybridlab.profiles.model import Profile

NAMESPACE = "kube-system"
REGISTRY = "registry.k8s.io"
MIRROR = {"kubernetes.io/config.mirror": "lab", "kubernetes.io/config.source": "file"}
COREFILE = """\
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes DOMAIN in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
"""
"""CoreDNS' configuration as kubeadm installs it (kubernetes
cmd/kubeadm/app/phases/addons/dns/manifests.go). It is the same for every way in which a cluster is
installed."""


def objects(profile: Profile, plane: Plane) -> list[tuple[str, Obj]]:
    """Return Kubernetes' own objects as (resource, object), in the order of their creation."""
    return [
        *_kubernetes_endpoints(control_plane(profile).address, API_PORT),
        *(
            _by_kubeadm(profile, API_PORT)
            if provider_of(profile).own_control_plane
            else _managed_by_eks()
        ),
        *_coredns(profile),
        *kube_proxy.objects(profile, plane),
    ]


def _by_kubeadm(profile: Profile, api_port: int) -> list[tuple[str, Obj]]:
    """Return a control plane that the cluster's own machines run."""
    control_planes = [machine for machine in machines(profile) if machine.group.control_plane]
    return [
        config_map(
            "kubeadm-config", NAMESPACE, {"ClusterConfiguration": _cluster_configuration(profile)}
        ),
        *(
            ("pods", pod)
            for machine in control_planes
            for pod in _control_plane(profile, machine, api_port)
        ),
    ]


def _managed_by_eks() -> list[tuple[str, Obj]]:
    """Return the objects of a cluster on EKS. Amazon runs the control plane, so it is not visible;
    nodes join by the roles in ``aws-auth``."""
    role = "arn:aws:iam::111122223333:role"
    roles = (
        f"- rolearn: {role}/linux-nodes\n  username: system:node:{{{{EC2PrivateDNSName}}}}\n"
        "  groups: [system:bootstrappers, system:nodes]\n"
        f"- rolearn: {role}/windows-nodes\n  username: system:node:{{{{EC2PrivateDNSName}}}}\n"
        "  groups: [system:bootstrappers, system:nodes, eks:kube-proxy-windows]\n"
    )
    return [config_map("aws-auth", NAMESPACE, {"mapRoles": roles})]


def _kubernetes_endpoints(api_address: str, api_port: int) -> list[tuple[str, Obj]]:
    """Return the endpoints of the Service ``kubernetes``, which the API server creates by
    itself."""
    slice_labels = {"kubernetes.io/service-name": "kubernetes"}
    return [
        (
            "endpoints",
            {
                "apiVersion": "v1",
                "kind": "Endpoints",
                "metadata": {
                    "name": "kubernetes",
                    "namespace": "default",
                    "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
                },
                "subsets": [
                    {
                        "addresses": [{"ip": api_address}],
                        "ports": [{"name": "https", "port": api_port, "protocol": "TCP"}],
                    }
                ],
            },
        ),
        (
            "endpointslices.discovery.k8s.io",
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "addressType": "IPv4",
                "metadata": {"name": "kubernetes", "namespace": "default", "labels": slice_labels},
                "endpoints": [{"addresses": [api_address], "conditions": {"ready": True}}],
                "ports": [{"name": "https", "port": api_port, "protocol": "TCP"}],
            },
        ),
    ]


def _cluster_configuration(profile: Profile) -> str:
    network = profile.network
    return (
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"
        f"kubernetesVersion: {profile.kubernetes.version}\n"
        f"networking:\n  dnsDomain: {network.dns_domain}\n  podSubnet: {network.pod_cidr}\n"
        f"  serviceSubnet: {network.service_cidr}\n"
    )


def _control_plane(profile: Profile, machine: Machine, api_port: int) -> list[Obj]:
    """Return the static pods of a control-plane machine, in the form of their mirror pods."""
    version = profile.kubernetes.version
    network = profile.network
    arguments = {
        "etcd": [
            "etcd",
            f"--advertise-client-urls=https://{machine.address}:2379",
            "--data-dir=/var/lib/etcd",
        ],
        "kube-apiserver": [
            "kube-apiserver",
            f"--advertise-address={machine.address}",
            f"--secure-port={api_port}",
            "--authorization-mode=Node,RBAC",
            f"--service-cluster-ip-range={network.service_cidr}",
            f"--service-node-port-range={profile.kube_proxy.node_port_range}",
        ],
        "kube-controller-manager": [
            "kube-controller-manager",
            "--allocate-node-cidrs=true",
            f"--cluster-cidr={network.pod_cidr}",
            f"--service-cluster-ip-range={network.service_cidr}",
        ],
        "kube-scheduler": ["kube-scheduler", "--leader-elect=true"],
    }
    images = {name: f"{REGISTRY}/{name}:{version}" for name in arguments} | {
        "etcd": f"{REGISTRY}/etcd:3.6.4-0"
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{machine.name}",
                "namespace": NAMESPACE,
                "labels": {"component": name, "tier": "control-plane"},
                "annotations": dict(MIRROR),
            },
            "spec": {
                "containers": [container(name, images[name], command=command, cpu="100m")],
                "hostNetwork": True,
                "nodeName": machine.name,
                "priorityClassName": "system-node-critical",
                "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
            },
        }
        for name, command in arguments.items()
    ]


def _coredns(profile: Profile) -> list[tuple[str, Obj]]:
    labels = {"k8s-app": "kube-dns"}
    of_provider = provider_of(profile).dns_labels
    ports = [
        {"name": "dns", "containerPort": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
        {"name": "metrics", "containerPort": 9153, "protocol": "TCP"},
    ]
    readiness = {"httpGet": {"path": "/ready", "port": 8181, "scheme": "HTTP"}}
    spec = pod_spec(
        "linux",
        [
            container(
                "coredns",
                f"{REGISTRY}/coredns/coredns:v1.12.1",
                args=["-conf", "/etc/coredns/Corefile"],
                ports=ports,
                readiness=readiness,
                cpu="100m",
            )
        ],
        dnsPolicy="Default",
        priorityClassName="system-cluster-critical",
        serviceAccountName="coredns",
        tolerations=[CRITICAL, CONTROL_PLANE],
    )
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kube-dns",
            "namespace": NAMESPACE,
            "labels": {
                **labels,
                **of_provider,
                "kubernetes.io/cluster-service": "true",
                "kubernetes.io/name": "CoreDNS",
            },
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": dns_address(profile),
            "selector": labels,
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
                {"name": "metrics", "port": 9153, "protocol": "TCP", "targetPort": 9153},
            ],
        },
    }
    return [
        service_account("coredns", NAMESPACE),
        config_map(
            "coredns",
            NAMESPACE,
            {"Corefile": COREFILE.replace("DOMAIN", profile.network.dns_domain)},
        ),
        ("services", service),
        ("deployments.apps", deployment("coredns", NAMESPACE, labels, spec, replicas=2)),
    ]
