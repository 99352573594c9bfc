# SPDX-License-Identifier: Apache-2.0
"""Calico's workloads as its operator lays them: operator, typha, node on both systems, controllers, API server.

A manifest installation has no operator, and its workloads are in kube-system, as Calico's manifests have them; where
Windows nodes run Calico as services of the host, there is nothing of it for them in the API.
"""

from hybridlab.api.contract import Obj
from hybridlab.cluster.installs.axes import install_of
from hybridlab.cluster.installs.shapes import (
    CONTROL_PLANE,
    CRITICAL,
    EVERYWHERE,
    container,
    daemon_set,
    deployment,
    host_process,
    pod_spec,
    service_account,
)
from hybridlab.networks.contract.plane import Declared, Plane
from hybridlab.profiles.model import Profile

OPERATOR_VERSION = "v1.40.1"
BACKEND = "CALICO_NETWORKING_BACKEND"
"""What Felix needs to know of the network and ``install-cni`` does not."""


def objects(profile: Profile, plane: Plane, declared: Declared) -> list[tuple[str, Obj]]:
    """(resource, object) in order, by what Calico's objects declare of the network."""
    install = install_of(profile)
    namespace = install.namespace
    made = [
        *_accounts(namespace),
        *_nodes(profile, plane, declared),
        *_controllers(profile, namespace),
    ]
    if install.operator:
        made = [*_operator(), *made, *_typha(profile)]
    if profile.calico.v3_api:
        made += _api_server(profile)
    return made


def _accounts(namespace: str) -> list[tuple[str, Obj]]:
    return [
        service_account(name, namespace)
        for name in ("calico-node", "calico-kube-controllers", "calico-typha")
    ]


def _operator() -> list[tuple[str, Obj]]:
    spec = pod_spec(
        "linux",
        [
            container(
                "tigera-operator",
                f"quay.io/tigera/operator:{OPERATOR_VERSION}",
                command=["operator"],
                env={
                    "OPERATOR_NAME": "tigera-operator",
                    "TIGERA_OPERATOR_INIT_IMAGE_VERSION": OPERATOR_VERSION,
                },
            )
        ],
        hostNetwork=True,
        dnsPolicy="ClusterFirstWithHostNet",
        serviceAccountName="tigera-operator",
        tolerations=EVERYWHERE,
    )
    return [
        service_account("tigera-operator", "tigera-operator"),
        (
            "deployments.apps",
            deployment("tigera-operator", "tigera-operator", {"k8s-app": "tigera-operator"}, spec),
        ),
    ]


def _node_environment(profile: Profile, network: dict[str, str]) -> dict[str, str]:
    return {
        "DATASTORE_TYPE": "kubernetes",
        **network,
        "CLUSTER_TYPE": "k8s,operator" if install_of(profile).operator else "k8s",
        "NODENAME": "field:spec.nodeName",
        "FELIX_DEFAULTENDPOINTTOHOSTACTION": "ACCEPT",
        "FELIX_HEALTHENABLED": "true",
        "IP": "autodetect",
        **({"USE_POD_CIDR": "true"} if profile.network.ipam == "host-local" else {}),
    }


def _cni_environment(profile: Profile, network: dict[str, str]) -> dict[str, str]:
    """What the operator tells ``install-cni`` on Windows; other installations fill in the image's own template."""
    return {
        "CNI_CONF_NAME": "10-calico.conflist",
        "CNI_NET_DIR": profile.windows.cni_config_dir,
        **{name: value for name, value in network.items() if name != BACKEND},
        "CNI_NETWORK_CONFIG": "configmap:cni-config-windows/config",
    }


def _nodes(profile: Profile, plane: Plane, declared: Declared) -> list[tuple[str, Obj]]:
    version = profile.calico.version
    install = install_of(profile)
    common = {
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "serviceAccountName": "calico-node",
        "tolerations": EVERYWHERE,
        "terminationGracePeriodSeconds": 5,
    }
    environment = _node_environment(profile, plane.environment("linux", declared))
    linux = pod_spec(
        "linux",
        [container("calico-node", f"quay.io/calico/node:{version}", env=environment)],
        initContainers=[
            container(
                "install-cni", f"quay.io/calico/cni:{version}", command=["/opt/cni/bin/install"]
            )
        ],
        **common,
    )
    on_windows = plane.environment("windows", declared)
    ipam = profile.network.ipam
    ipam_type = {} if install.operator and ipam == "host-local" else {"CNI_IPAM_TYPE": ipam}
    windows_environment = {
        **environment,
        **on_windows,
        "KUBE_NETWORK": "Calico.*",
        **ipam_type,
        "SERVICE_CIDR": profile.network.service_cidr,
    }
    on_node = profile.calico.on("windows")
    image = f"quay.io/calico/node-windows:{on_node}"
    mount = "$env:CONTAINER_SANDBOX_MOUNT_POINT"
    ready = {
        "exec": {"command": [f"{mount}/CalicoWindows/calico-node.exe", "-felix-ready"]},
        "timeoutSeconds": 10,
        "periodSeconds": 10,
    }
    windows = host_process(
        [
            container(
                "felix",
                image,
                command=[f"{mount}/CalicoWindows/felix-service.ps1"],
                env=windows_environment,
                readiness=ready if install.operator else None,
            ),
            container(
                "node",
                image,
                command=[f"{mount}/CalicoWindows/node-service.ps1"],
                env=windows_environment,
            ),
            *(
                container(
                    name,
                    image,
                    command=[f"{mount}/CalicoWindows/{script}"],
                    env=windows_environment,
                )
                for name, script in plane.windows_containers().items()
            ),
        ],
        initContainers=[
            container("uninstall-calico", image, command=[f"{mount}/uninstall-calico.ps1"]),
            container(
                "install-cni",
                f"quay.io/calico/cni-windows:{on_node}",
                command=["/opt/cni/bin/install.exe"],
                env=_cni_environment(profile, on_windows) if install.operator else None,
            ),
        ],
        **{key: value for key, value in common.items() if key != "hostNetwork"},
    )
    on_linux = daemon_set("calico-node", install.namespace, {"k8s-app": "calico-node"}, linux)
    by_pods = daemon_set(
        "calico-node-windows", install.namespace, {"k8s-app": "calico-node-windows"}, windows
    )
    made = [on_linux, by_pods] if install.windows_pods else [on_linux]
    return [("daemonsets.apps", daemons) for daemons in made]


def _typha(profile: Profile) -> list[tuple[str, Obj]]:
    spec = pod_spec(
        "linux",
        [
            container(
                "calico-typha",
                f"quay.io/calico/typha:{profile.calico.version}",
                command=["calico-typha"],
                ports=[
                    {
                        "name": "calico-typha",
                        "containerPort": 5473,
                        "hostPort": 5473,
                        "protocol": "TCP",
                    }
                ],
                env={"TYPHA_DATASTORETYPE": "kubernetes", "TYPHA_HEALTHENABLED": "true"},
            )
        ],
        hostNetwork=True,
        priorityClassName="system-cluster-critical",
        serviceAccountName="calico-typha",
        tolerations=EVERYWHERE,
    )
    return [
        (
            "deployments.apps",
            deployment("calico-typha", "calico-system", {"k8s-app": "calico-typha"}, spec),
        )
    ]


def _controllers(profile: Profile, namespace: str) -> list[tuple[str, Obj]]:
    spec = pod_spec(
        "linux",
        [
            container(
                "calico-kube-controllers",
                f"quay.io/calico/kube-controllers:{profile.calico.version}",
                env={"DATASTORE_TYPE": "kubernetes", "ENABLED_CONTROLLERS": "node,loadbalancer"},
            )
        ],
        priorityClassName="system-cluster-critical",
        serviceAccountName="calico-kube-controllers",
        tolerations=[CRITICAL, CONTROL_PLANE],
    )
    labels = {"k8s-app": "calico-kube-controllers"}
    return [("deployments.apps", deployment("calico-kube-controllers", namespace, labels, spec))]


def _api_server(profile: Profile) -> list[tuple[str, Obj]]:
    image = f"quay.io/calico/apiserver:{profile.calico.version}"
    spec = pod_spec(
        "linux",
        [
            container(
                "calico-apiserver", image, command=["/code/apiserver"], args=["--secure-port=5443"]
            )
        ],
        serviceAccountName="calico-apiserver",
        tolerations=[CRITICAL, CONTROL_PLANE],
    )
    return [
        service_account("calico-apiserver", "calico-apiserver"),
        (
            "deployments.apps",
            deployment(
                "calico-apiserver",
                "calico-apiserver",
                {"apiserver": "true", "k8s-app": "calico-apiserver"},
                spec,
                replicas=2,
            ),
        ),
    ]
