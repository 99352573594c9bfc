# SPDX-License-Identifier: Apache-2.0
"""Calico's workloads as its operator creates them: operator, typha, node on both systems,
controllers, API server.

An installation by manifests has no operator, and its workloads are in kube-system. If Windows nodes
run Calico as services of the host, the API has no Calico workloads for them.

Sources: tigera/operator pkg/render; projectcalico/calico manifests; the module ``manifest`` lists
further sources.
"""

from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.cluster.installs import manifest
from hybridlab.cluster.installs.axes import install_of, provider_of
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
BACKEND = manifest.BACKEND
"""The environment variable that names the network's backend; Felix needs it, ``install-cni`` does
not."""
ON_EVERY_NODE: dict[str, Any] = {
    "priorityClassName": "system-node-critical",
    "serviceAccountName": "calico-node",
    "tolerations": EVERYWHERE,
    "terminationGracePeriodSeconds": 5,
}


def objects(profile: Profile, plane: Plane, declared: Declared) -> list[tuple[str, Obj]]:
    """Return Calico's workloads as (resource, object), in the order of their creation, for the
    network that Calico's own objects declare."""
    install = install_of(profile)
    namespace = install.namespace
    made = [
        *_accounts(namespace),
        *_nodes(profile, plane, declared),
        *_controllers(profile, namespace),
    ]
    if install.operator:
        made = [*_operator(profile), *made, *_typha(profile)]
    if profile.calico.v3_api:
        made += _api_server(profile)
    return made


def image_of(profile: Profile, name: str, version: str) -> str:
    """Return the image of one of Calico's programs, with the name that this cluster's provider
    uses."""
    return f"{provider_of(profile).calico_images}{name}:{version}"


def _accounts(namespace: str) -> list[tuple[str, Obj]]:
    return [
        service_account(name, namespace)
        for name in ("calico-node", "calico-kube-controllers", "calico-typha")
    ]


def _operator(profile: Profile) -> list[tuple[str, Obj]]:
    spec = pod_spec(
        "linux",
        [
            container(
                "tigera-operator",
                f"{provider_of(profile).operator_image}:{OPERATOR_VERSION}",
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
    """Return the operator's settings for ``install-cni`` on Windows."""
    return {
        "CNI_CONF_NAME": "10-calico.conflist",
        "CNI_NET_DIR": profile.windows.cni_config_dir,
        **{name: value for name, value in network.items() if name != BACKEND},
        "CNI_NETWORK_CONFIG": "configmap:cni-config-windows/config",
    }


def _nodes(profile: Profile, plane: Plane, declared: Declared) -> list[tuple[str, Obj]]:
    install = install_of(profile)
    made = [("daemonsets.apps", _on_linux(profile, plane, declared))]
    if declared.cni == "Calico" and not install.operator:
        made.append(manifest.linux_settings(profile, plane.environment("linux", declared)[BACKEND]))
    if install.windows_pods and install.operator:
        made.append(("daemonsets.apps", _on_windows(profile, plane, declared)))
    elif install.windows_pods:
        made += manifest.on_windows(profile, plane, declared)
    return made


def _on_linux(profile: Profile, plane: Plane, declared: Declared) -> Obj:
    install = install_of(profile)
    version = profile.calico.version
    environment = _node_environment(profile, plane.environment("linux", declared))
    ours = declared.cni == "Calico"
    if ours and not install.operator:
        environment[BACKEND] = manifest.LINUX_BACKEND
    cni = container(
        "install-cni", image_of(profile, "cni", version), command=["/opt/cni/bin/install"]
    )
    spec = pod_spec(
        "linux",
        [container("calico-node", image_of(profile, "node", version), env=environment)],
        initContainers=[cni] if ours else [],
        hostNetwork=True,
        **ON_EVERY_NODE,
    )
    return daemon_set("calico-node", install.namespace, {"k8s-app": "calico-node"}, spec)


def _on_windows(profile: Profile, plane: Plane, declared: Declared) -> Obj:
    """Return the DaemonSet of the operator."""
    network = plane.environment("windows", declared)
    ipam = profile.network.ipam
    environment = {
        **_node_environment(profile, plane.environment("linux", declared)),
        **network,
        "KUBE_NETWORK": plane.kube_network,
        **({"CNI_IPAM_TYPE": ipam} if ipam == "calico-ipam" else {}),
        "SERVICE_CIDR": profile.network.service_cidr,
    }
    on_node = profile.calico.on("windows")
    image = image_of(profile, "node-windows", on_node)
    mount = "$env:CONTAINER_SANDBOX_MOUNT_POINT"
    cni = container(
        "install-cni",
        image_of(profile, "cni-windows", on_node),
        command=["/opt/cni/bin/install.exe"],
        env=_cni_environment(profile, network),
    )
    ready = {
        "exec": {"command": [f"{mount}/CalicoWindows/calico-node.exe", "-felix-ready"]},
        "timeoutSeconds": 10,
        "periodSeconds": 10,
    }
    scripts = {
        "felix": "felix-service.ps1",
        "node": "node-service.ps1",
        **plane.windows_containers(),
    }
    spec = host_process(
        [
            container(
                name,
                image,
                command=[f"{mount}/CalicoWindows/{script}"],
                env=environment,
                readiness=ready if name == "felix" else None,
            )
            for name, script in scripts.items()
        ],
        initContainers=[
            container("uninstall-calico", image, command=[f"{mount}/uninstall-calico.ps1"]),
            *([cni] if declared.cni == "Calico" else []),
        ],
        **ON_EVERY_NODE,
    )
    labels = {"k8s-app": "calico-node-windows"}
    return daemon_set("calico-node-windows", install_of(profile).namespace, labels, spec)


def _typha(profile: Profile) -> list[tuple[str, Obj]]:
    spec = pod_spec(
        "linux",
        [
            container(
                "calico-typha",
                image_of(profile, "typha", profile.calico.version),
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
                image_of(profile, "kube-controllers", profile.calico.version),
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
    image = image_of(profile, "apiserver", profile.calico.version)
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
