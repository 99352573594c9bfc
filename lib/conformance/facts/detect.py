# SPDX-License-Identifier: Apache-2.0
"""Facts about a cluster, each with the place where it was read. A fact that cannot be read is
unknown, never guessed."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from conformance.facts import calico_nodes, platforms
from conformance.facts.calico_api import ADDRESS
from conformance.facts.calico_facts import CalicoReading
from conformance.facts.diagnostics_bundle import is_calico_node
from conformance.facts.dsr import with_dsr
from conformance.facts.felix_state import felix_pod_states
from conformance.facts.first_blocks import with_first_blocks
from conformance.facts.reading import Reading
from conformance.facts.tigera_status import tigera_status
from conformance.facts.updates import windows_update
from conformance.facts.windows_network import BACKEND, WindowsNetwork
from conformance.facts.workloads import all_containers, command_line
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import ipv4_first, list_at, mapping_at, value_at
from conformance.kube.node_conditions import boot_id, not_ready
from conformance.model.facts import Fact, Facts, NodeFacts

KERNEL = re.compile(r"^\d+\.\d+\.(\d+)\.(\d+)")
KUBE_PROXY_CONFIGURATIONS = ("kube-proxy", "kube-proxy-config")
"""kubeadm's and EKS' ConfigMaps of kube-proxy on Linux."""
KUBE_PROXY_ON_WINDOWS = ("kube-proxy-windows", "kube-proxy")
"""The values of ``k8s-app`` of kube-proxy's pods on Windows nodes: from sig-windows-tools'
DaemonSet, and from a DaemonSet for all nodes."""
CONTROL_PLANE = tuple(
    f"node-role.kubernetes.io/{role}"
    for role in ("control-plane", "master", "controlplane", "etcd")
)
"""Labels of control-plane nodes; the last two are Rancher's."""


def detect(kube: Kube, *, evidence: Literal["lab", "field"] = "field") -> Facts:
    """Read all facts. Raise ApiUnreachable, and ApiRefused if not even nodes may be listed."""
    git = str(kube.version().get("gitVersion") or "")
    nodes = with_dsr(kube, [node_facts(obj) for obj in kube.objects("v1", "Node")])
    reading = Reading(kube)
    calico = CalicoReading(reading, nodes)
    network = calico.network()
    platform = platforms.platform(reading, kube.discovery.group_versions(), git)
    meant = calico.felix(platform.value)
    felix = felix_pod_states([pod for pod in calico.pods if is_calico_node(pod)])
    nodes = with_first_blocks(
        reading,
        [
            replace(_networked(node, network, calico), felix=meant.on(node))
            if node.os == "windows"
            else node
            for node in nodes
        ],
    )
    nodes = [
        replace(node, felix_restarts=felix[node.name].restarts) if node.name in felix else node
        for node in nodes
    ]
    calico_version = calico.version()
    cni, ipam = calico.linux_cni()
    found = Facts(
        nodes=tuple(sorted(nodes, key=lambda node: (node.os, not node.control_plane, node.name))),
        kubernetes_version=Fact(git or None, "/version gitVersion"),
        calico_version=calico_version,
        mode=calico.mode(),
        datastore=calico.datastore(),
        install=calico.install(platform.value),
        platform=platform,
        calico_apis=calico.apis(kube.discovery),
        apis_away=dict(kube.discovery.away),
        cni=cni,
        ipam=ipam,
        calico_edition=calico_nodes.edition(reading),
        calico_on_nodes=calico_nodes.versions(reading, nodes, calico.workloads, calico_version),
        felix_pods=calico.workloads.felix_pods,
        pod_network=network.pod_network(),
        tigera_status=tigera_status(reading),
        kube_proxy_mode=calico.ebpf() or kube_proxy_mode(reading),
        evidence=evidence,
        single_network=network.single_network(),
        mesh=calico.mesh(),
        dual_stack=calico.dual_stack(),
        kube_proxy_pods=kube_proxy_pods(reading, nodes),
        felix_overrides=calico.felix_overrides(),
    )
    return found.with_calico().summed_up()


def _networked(node: NodeFacts, network: WindowsNetwork, calico: CalicoReading) -> NodeFacts:
    """Return a Windows node, completed by the network of its pods and how Calico was installed
    there."""
    cni = network.cni(node)
    ipam = network.ipam(node, cni)
    networks = network.pod_networks(node, ipam)
    plane = network.plane(node, cni)
    return replace(
        node,
        cni=cni,
        ipam=ipam,
        plane=plane,
        pod_networks=networks,
        install=calico.install_on(node),
    )


def node_facts(node: Obj) -> NodeFacts:
    """Return the facts about a node, from its Node object."""
    meta = node["metadata"]
    spec = mapping_at(node, "spec")
    info = mapping_at(node, "status", "nodeInfo")
    labels = dict(mapping_at(meta, "labels"))
    windows = (
        str(info.get("operatingSystem") or labels.get("kubernetes.io/os")).lower() == "windows"
    )
    kernel = str(info.get("kernelVersion") or "")
    annotations = dict(mapping_at(meta, "annotations"))
    unready = not_ready(node)
    return NodeFacts(
        name=meta["name"],
        os="windows" if windows else "linux",
        address=_address(node),
        ready=bool(list_at(node, "status", "conditions")) and not unready,
        unready=unready,
        uid=str(meta.get("uid") or ""),
        boot=boot_id(node),
        virtual=platforms.virtual(meta),
        schedulable=not spec.get("unschedulable"),
        control_plane=any(key in labels for key in CONTROL_PLANE),
        kernel_version=kernel,
        os_image=str(info.get("osImage") or ""),
        container_runtime=str(info.get("containerRuntimeVersion") or ""),
        windows_build=_windows_build(kernel) if windows else None,
        labels=labels,
        annotations=annotations,
        taints=tuple(list_at(spec, "taints")),
        pod_networks=tuple(spec.get("podCIDRs") or filter(None, [spec.get("podCIDR")]))
        if windows or BACKEND in annotations
        else (),
        update=windows_update(kernel, labels, annotations)
        if windows
        else Fact(None, "not read: the node does not run Windows"),
    )


def _address(node: Obj) -> str:
    """Return the first internal IPv4 address of a node, else the address that Calico announces,
    else an external address.

    If none of these addresses is IPv4, return any address; if the node has no address, return an
    empty string.
    """
    listed = list_at(node, "status", "addresses")

    def of(kind: str) -> list[str | None]:
        return [one.get("address") for one in listed if one.get("type") == kind]

    announced = str(value_at(node, "metadata", "annotations", ADDRESS) or "").partition("/")[0]
    return ipv4_first([*of("InternalIP"), announced, *of("ExternalIP")])


def _windows_build(kernel: str) -> tuple[int, int] | None:
    """Return build and revision of a version such as ``10.0.20348.2762``; None for a text that is
    no such version."""
    match = KERNEL.match(kernel)
    return (int(match[1]), int(match[2])) if match else None


def kube_proxy_pods(reading: Reading, nodes: Sequence[NodeFacts]) -> Fact[bool]:
    """Return whether every Windows node has its kube-proxy in a pod, as sig-windows-tools installs
    it."""
    if reading.one("apps/v1", "DaemonSet", KUBE_PROXY_ON_WINDOWS[0], "kube-system"):
        return Fact(True, f"DaemonSet kube-system/{KUBE_PROXY_ON_WINDOWS[0]}")
    having = {
        value_at(pod, "spec", "nodeName")
        for pod in reading.all("v1", "Pod")
        if pod["metadata"].get("namespace") == "kube-system"
        and value_at(pod, "metadata", "labels", "k8s-app") in KUBE_PROXY_ON_WINDOWS
    }
    if why := reading.why.get("Pod"):
        return Fact(None, f"not known: {why}")
    without = [node.name for node in nodes if node.os == "windows" and node.name not in having]
    text = f"no pod on Windows node {', '.join(without)}" if without else "on every Windows node"
    return Fact(
        not without,
        f"pods in kube-system with label k8s-app={' or '.join(KUBE_PROXY_ON_WINDOWS)}: {text}",
    )


def kube_proxy_mode(reading: Reading) -> Fact[str]:
    """Return kube-proxy's mode on Linux. An empty mode in its configuration means iptables."""
    for name in KUBE_PROXY_CONFIGURATIONS:
        text = "\n".join(
            map(
                str,
                mapping_at(reading.one("v1", "ConfigMap", name, "kube-system"), "data").values(),
            )
        )
        found = re.search(r"^mode:[ \t]*[\"']?(\w*)[\"']?[ \t]*$", text, re.MULTILINE)
        if found:
            return Fact(
                found[1] or "iptables",
                f"ConfigMap kube-system/{name} mode"
                + ("" if found[1] else " (empty, which means iptables)"),
            )
    for container in all_containers(
        reading.one("apps/v1", "DaemonSet", "kube-proxy", "kube-system")
    ):
        flag = re.search(r"--proxy-mode=(\w+)", command_line(container))
        if flag:
            return Fact(flag[1], "DaemonSet kube-system/kube-proxy --proxy-mode")
    return Fact(
        None, f"not known: {reading.reason('ConfigMap kube-proxy', 'DaemonSet kube-proxy')}"
    )
