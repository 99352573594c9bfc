# SPDX-License-Identifier: Apache-2.0
"""Facts about a cluster, each with the place where it was read; what cannot be read is unknown,
never guessed."""

import re
from dataclasses import replace
from typing import Literal

from conformance.facts import calico_nodes, platforms
from conformance.facts.calico_facts import CalicoReading
from conformance.facts.calico_workloads import pods
from conformance.facts.diagnostics_bundle import is_calico_node
from conformance.facts.dsr import with_dsr
from conformance.facts.felix_state import felix_seen
from conformance.facts.first_blocks import with_first_blocks
from conformance.facts.reading import Reading
from conformance.facts.tigera_status import tigera_status
from conformance.facts.updates import windows_update
from conformance.facts.windows_network import WindowsNetwork
from conformance.facts.workloads import all_containers, command_line
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import list_at, mapping_at
from conformance.kube.node_conditions import boot_id, not_ready
from conformance.model.facts import Fact, Facts, NodeFacts

KERNEL = re.compile(r"^\d+\.\d+\.(\d+)\.(\d+)")
KUBE_PROXY_CONFIGURATIONS = ("kube-proxy", "kube-proxy-config")
"""kubeadm's and EKS' ConfigMaps of kube-proxy on Linux."""
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def detect(kube: Kube, *, evidence: Literal["lab", "field"] = "field") -> Facts:
    """Read everything.  Raises ApiUnreachable, and ApiRefused when not even nodes may be listed."""
    git = str(kube.version().get("gitVersion") or "")
    nodes = with_dsr(kube, [node_facts(obj) for obj in kube.objects("v1", "Node")])
    reading = Reading(kube)
    calico = CalicoReading(reading, nodes)
    network = calico.network()
    felix = felix_seen([pod for pod in pods(reading, calico.workloads) if is_calico_node(pod)])
    nodes = with_first_blocks(
        reading,
        [_networked(node, network, calico) if node.os == "windows" else node for node in nodes],
    )
    nodes = [
        replace(node, felix_restarts=felix[node.name].restarts) if node.name in felix else node
        for node in nodes
    ]
    calico_version = calico.version()
    platform = platforms.platform(reading, kube.discovery.group_versions(), git)
    cni, ipam = calico.linux_cni()
    found = Facts(
        nodes=tuple(sorted(nodes, key=lambda node: (node.os, not node.control_plane, node.name))),
        kubernetes_version=Fact(git or None, "/version gitVersion"),
        calico_version=calico_version,
        mode=calico.mode(),
        datastore=calico.datastore(),
        install=calico.install(platform.value),
        platform=platform,
        calico_apis=calico.apis(kube.discovery.group_versions()),
        cni=cni,
        ipam=ipam,
        calico_edition=calico_nodes.edition(reading),
        calico_on_nodes=calico_nodes.versions(reading, nodes, calico.workloads, calico_version),
        felix_pods=calico.workloads.felix_pods,
        pod_network=network.pod_network(),
        tigera_status=tigera_status(reading),
        kube_proxy_mode=kube_proxy_mode(reading),
        evidence=evidence,
        single_network=network.single_network(),
        mesh=calico.mesh(),
        dual_stack=calico.dual_stack(),
    )
    return found.summed_up()


def _networked(node: NodeFacts, network: WindowsNetwork, calico: CalicoReading) -> NodeFacts:
    """A Windows node with what carries its pods, and how Calico came onto it."""
    cni = network.cni(node)
    ipam = network.ipam(node, cni)
    networks = network.pod_networks(node, ipam)
    plane = network.plane(node, cni)
    install = calico.install_on(node)
    return replace(node, cni=cni, ipam=ipam, plane=plane, pod_networks=networks, install=install)


def node_facts(node: Obj) -> NodeFacts:
    """One Node object as facts."""
    meta = node["metadata"]
    spec = mapping_at(node, "spec")
    info = mapping_at(node, "status", "nodeInfo")
    labels = dict(mapping_at(meta, "labels"))
    windows = (info.get("operatingSystem") or labels.get("kubernetes.io/os")) == "windows"
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
        if windows
        else (),
        update=windows_update(kernel, labels, annotations)
        if windows
        else Fact(None, "not asked: no Windows node"),
    )


def _address(node: Obj) -> str:
    """Return the first internal address of a node, else the first external; empty: none."""
    addresses = {
        address.get("type"): address.get("address")
        for address in reversed(list_at(node, "status", "addresses"))
    }
    return str(addresses.get("InternalIP") or addresses.get("ExternalIP") or "")


def _windows_build(kernel: str) -> tuple[int, int] | None:
    """Return build and revision of ``10.0.20348.2762``; None: it has another form."""
    match = KERNEL.match(kernel)
    return (int(match[1]), int(match[2])) if match else None


def kube_proxy_mode(reading: Reading) -> Fact[str]:
    """kube-proxy's mode on Linux; an empty mode in its configuration means iptables."""
    for name in KUBE_PROXY_CONFIGURATIONS:
        config = reading.one("v1", "ConfigMap", name, "kube-system")
        text = "\n".join(map(str, mapping_at(config, "data").values()))
        found = re.search(r"^mode:[ \t]*[\"']?(\w*)[\"']?[ \t]*$", text, re.MULTILINE)
        if found:
            where = f"ConfigMap kube-system/{name} mode" + (
                "" if found[1] else " (empty: iptables)"
            )
            return Fact(found[1] or "iptables", where)
    for container in all_containers(
        reading.one("apps/v1", "DaemonSet", "kube-proxy", "kube-system")
    ):
        flag = re.search(r"--proxy-mode=(\w+)", command_line(container))
        if flag:
            return Fact(flag[1], "DaemonSet kube-system/kube-proxy --proxy-mode")
    return Fact(
        None, f"not known: {reading.reason('ConfigMap kube-proxy', 'DaemonSet kube-proxy')}"
    )
