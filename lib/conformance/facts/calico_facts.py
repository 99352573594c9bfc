# SPDX-License-Identifier: Apache-2.0
"""Calico's version, mode, datastore and installation, read from its own objects and workloads."""

import ipaddress
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Literal

from conformance.facts import cni_config
from conformance.facts.calico_api import ADDRESS, CRD, V3
from conformance.facts.calico_nodes import ENTERPRISE_ONLY, edition, image_version
from conformance.facts.calico_workloads import pods, workloads
from conformance.facts.diagnostics_bundle import is_calico_node
from conformance.facts.felix_meant import FelixMeant, selects
from conformance.facts.felix_settings import FelixSettings, Overrides, is_on, overrides
from conformance.facts.reading import Reading
from conformance.facts.windows_network import BACKEND, IPAM, WindowsNetwork
from conformance.facts.workloads import all_containers, described, variable
from conformance.kube.client import Obj
from conformance.kube.discovery import Discovery
from conformance.kube.fields import mapping_at, value_at
from conformance.model.facts import Fact, Install, Mode, NodeFacts

BACKENDS: dict[str, Mode] = {
    "vxlan": "vxlan",
    "windows-bgp": "bgp",
    "bird": "bgp",
    "none": "policy-only",
}


class CalicoReading:
    """Facts about Calico from one reading of the cluster."""

    def __init__(self, reading: Reading, nodes: Sequence[NodeFacts]) -> None:
        self._reading = reading
        self._nodes = nodes
        self._installation = reading.one("operator.tigera.io/v1", "Installation", "default")
        self._information, self._information_at = reading.first(
            "ClusterInformation", "default", V3, CRD
        )
        self.workloads = workloads(reading)
        self._windows = self.workloads.windows
        self._linux = self.workloads.linux
        self.pods = [
            pod
            for pod in pods(reading, self.workloads)
            if is_calico_node(pod) or pod["metadata"]["name"].startswith(self.workloads.names)
        ]
        """The pods of calico-node, on Linux and Windows."""
        self._blocks: dict[str, list[str]] = {}
        """The CIDRs of the IPAM blocks, by node."""
        for affinity in self._listed("BlockAffinity"):
            spec = mapping_at(affinity, "spec")
            if spec.get("state") == "confirmed":
                self._blocks.setdefault(str(spec.get("node")), []).append(str(spec.get("cidr")))

    def version(self) -> Fact[str]:
        if version := value_at(self._information, "spec", "calicoVersion"):
            return Fact(
                str(version),
                f"ClusterInformation default .spec.calicoVersion ({self._information_at})",
            )
        if edition(self._reading).value == "Calico Enterprise":
            return Fact(
                None,
                f"not known: {self._reading.reason('ClusterInformation default')}, and {ENTERPRISE_ONLY}",
            )
        if version := value_at(self._installation, "status", "calicoVersion"):
            return Fact(str(version), "Installation default .status.calicoVersion")
        for daemonset in (self._linux, self._windows):
            for container in all_containers(daemonset):
                if version := image_version(str(container.get("image"))):
                    return Fact(version, f"image of {described(daemonset)}")
        return self._unknown("ClusterInformation default", "Installation default", "DaemonSet")

    def mode(self) -> Fact[Mode]:
        """Return the mode of the network of Windows pods. Sources, in this order: the backend of
        Calico on Windows, the backend on Linux, the Installation.

        If no source shows the mode, flannel's annotations on nodes decide, then the pools that have
        blocks.
        """
        found = chain(self._mode_by_backend(), self._mode_by_installation(), self._mode_by_use())
        return next(found, None) or self._unknown("DaemonSet", "Installation default", "IPPool")

    def _mode_by_backend(self) -> Iterator[Fact[Mode]]:
        for daemonset in (self._windows, self._linux):
            backend = self._variable(daemonset, "CALICO_NETWORKING_BACKEND")
            if backend in BACKENDS:
                where = f"CALICO_NETWORKING_BACKEND={backend} of {described(daemonset)}"
                if BACKENDS[backend] == "bgp" and "vxlan" in map(_pool_mode, self._pools_in_use()):
                    yield Fact("mixed", f"{where}, but an IPPool sets vxlanMode")
                yield Fact(BACKENDS[backend], where)

    def _mode_by_installation(self) -> Iterator[Fact[Mode]]:
        where = "Installation default .spec"
        if mapping_at(self._installation, "spec", "cni").get("type", "Calico") != "Calico":
            yield Fact("policy-only", f"{where}.cni.type")
        if bgp := value_at(self._installation, "spec", "calicoNetwork", "bgp"):
            yield Fact("bgp" if bgp == "Enabled" else "vxlan", f"{where}.calicoNetwork.bgp")

    def _mode_by_use(self) -> Iterator[Fact[Mode]]:
        """Yield the modes that use shows: first by flannel's annotations on nodes, then by the
        pools that have blocks."""
        for node in self._nodes:
            if BACKEND in node.annotations:
                yield Fact("policy-only", f"annotation {BACKEND} of node {node.name}")
        modes = {_pool_mode(pool) for pool in self._pools_in_use() if self._blocks_of(pool)}
        if len(modes) > 1:
            yield Fact("mixed", "IPPools with blocks differ in vxlanMode")
        for mode in modes:
            yield Fact(mode, "vxlanMode of IPPools with blocks")

    def _pools_in_use(self) -> list[Obj]:
        """Return the pools that are enabled or still have blocks."""
        return [
            pool
            for pool in self._listed("IPPool")
            if not value_at(pool, "spec", "disabled") or self._blocks_of(pool)
        ]

    def _blocks_of(self, pool: Obj) -> bool:
        whole = ipaddress.ip_network(str(value_at(pool, "spec", "cidr") or "::/128"), strict=False)
        return any(_within(block, whole) for blocks in self._blocks.values() for block in blocks)

    def datastore(self) -> Fact[Literal["kubernetes", "etcd"]]:
        """Return the datastore of Calico."""
        for daemonset in (self._linux, self._windows):
            kind = self._variable(daemonset, "DATASTORE_TYPE")
            if kind == "kubernetes":
                return Fact("kubernetes", f"DATASTORE_TYPE of {described(daemonset)}")
            if kind == "etcdv3" or self._variable(daemonset, "ETCD_ENDPOINTS"):
                return Fact("etcd", f"DATASTORE_TYPE or ETCD_ENDPOINTS of {described(daemonset)}")
        if self._installation is not None:
            return Fact(
                "kubernetes", "Installation default: the operator supports only this datastore"
            )
        if self._information is not None:
            return Fact(
                "kubernetes",
                f"ClusterInformation default is a custom resource ({self._information_at})",
            )
        return self._unknown("DaemonSet", "ClusterInformation default")

    def install(self, platform: str | None) -> Fact[Install]:
        """Return how Calico was installed on the Windows nodes, or on the Linux nodes if there are
        no Windows nodes."""
        windows = [node for node in self._nodes if node.os == "windows"]
        if self._windows is None:
            return self._without_daemonset(windows, platform) if windows else self._on_linux()
        where = described(self._windows)
        if self.workloads.of_the_operator:
            return Fact("operator", f"Installation default owns {where}")
        if self._for_windows and self._windows["metadata"]["namespace"] == "calico-system":
            return Fact(
                "operator",
                f"Installation default .spec.calicoNetwork.windowsDataplane HNS, {where}",
            )
        return Fact("manifest", where)

    def install_on(self, node: NodeFacts) -> Fact[str] | None:
        """Return how Calico was installed on a Windows node that the DaemonSet does not select;
        None if Calico was installed there as on other nodes."""
        if (
            self._windows is None
            or ADDRESS not in node.annotations
            or selects(self._windows, node)
            or node.name in self._pods_of_nodes()
        ):
            return None
        return Fact(
            "manual",
            f"node {node.name} has an annotation of Calico, but {described(self._windows)} does "
            "not select it",
        )

    def felix(self, platform: str | None) -> FelixMeant:
        """Return the data that show on which Windows nodes Felix should run."""
        mode = self.mode()
        networked = mode.value not in (None, "policy-only")
        on_kubernetes = self.datastore().value == "kubernetes"
        return FelixMeant(
            found=self.workloads,
            pods=self._pods_of_nodes(),
            unread=self._reading.why.get("DaemonSet", "") or self._reading.why.get("Pod", ""),
            installation=self._installation,
            blocks=self._blocks,
            platform=platform,
            networked=f"Calico is the network of pods (mode {mode.value}, {mode.source}), but "
            "the node has neither an annotation nor a block of Calico"
            if networked and on_kubernetes
            else "",
        )

    def felix_overrides(self) -> Overrides:
        """Return the settings of Felix that override FelixConfiguration default."""
        return overrides(
            self._reading, self.workloads, self._listed("FelixConfiguration"), self._nodes
        )

    def ebpf(self) -> Fact[str] | None:
        """Return a fact if Felix serves Services on Linux nodes by eBPF, without kube-proxy.

        Return None if Felix does not, or if no source shows whether it does.
        """
        if value_at(self._installation, "spec", "calicoNetwork", "linuxDataplane") == "BPF":
            return Fact("ebpf", "Installation default .spec.calicoNetwork.linuxDataplane BPF")
        default, api = self._reading.first("FelixConfiguration", "default", V3, CRD)
        settings = FelixSettings(lambda: (default, api), self.felix_overrides())
        found = settings.everywhere(
            "bpfEnabled", (node for node in self._nodes if node.os == "linux")
        )
        on = [fact for fact in found.values() if is_on(fact.value)]
        return Fact("ebpf", on[0].source) if on else None

    def _pods_of_nodes(self) -> dict[str, str]:
        """Return the names of calico-node's pods, by node."""
        return {
            str(
                value_at(pod, "spec", "nodeName")
            ): f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            for pod in self.pods
        }

    def _on_linux(self) -> Fact[Install]:
        if self._installation is not None:
            return Fact("operator", "Installation default")
        return (
            Fact("manifest", described(self._linux)) if self._linux else self._unknown("DaemonSet")
        )

    def _without_daemonset(
        self, windows: Sequence[NodeFacts], platform: str | None
    ) -> Fact[Install]:
        """Return how Calico was installed if no DaemonSet runs it: as services, by a platform's
        agent, or by an operator whose DaemonSet is missing."""
        if self._for_windows:
            return Fact("operator", "Installation default .spec.calicoNetwork.windowsDataplane HNS")
        without = "there is no DaemonSet of Calico for Windows nodes"
        if platform == "rke2":
            return Fact(
                "agent", f"RKE2's agent runs Calico on Windows: platform rke2, and {without}"
            )
        if platform == "aks" and self.mode().value == "policy-only":
            return Fact(
                "platform",
                f"AKS runs Calico as services of the node image: platform aks, and {without}",
            )
        if annotated := next((node for node in windows if ADDRESS in node.annotations), None):
            return Fact(
                "manual", f"node {annotated.name} has an annotation of Calico, but {without}"
            )
        why = self._reading.reason("Installation default", "DaemonSet")
        return Fact(
            None,
            f"not known: {why}; {without}, and no Windows node has an annotation of Calico",
        )

    @property
    def _for_windows(self) -> bool:
        """Return whether the operator is configured to install Calico on Windows."""
        return bool(
            value_at(self._installation, "spec", "calicoNetwork", "windowsDataplane") == "HNS"
        )

    def network(self) -> WindowsNetwork:
        """Return the network of Windows pods: CNI plugin, IPAM, overlay or l2bridge."""
        return WindowsNetwork(
            self._reading, self.workloads, self._installation, self.mode(), self._blocks
        )

    def linux_cni(self) -> tuple[Fact[str], Fact[str]]:
        """Return the CNI plugin and the IPAM of Linux nodes, for clusters that have no Windows
        nodes."""
        kind = mapping_at(self._installation, "spec", "cni")
        if kind.get("type"):
            ipam = str(value_at(kind, "ipam", "type") or "")
            at = "Installation default .spec.cni"
            return Fact(str(kind["type"]), f"{at}.type"), Fact(
                IPAM.get(ipam, ipam) or None, f"{at}.ipam.type"
            )
        found = cni_config.read(self._variable(self._linux, "CNI_NETWORK_CONFIG"))
        where = f"CNI_NETWORK_CONFIG of {described(self._linux)}"
        unknown = self._unknown("Installation default", "DaemonSet")
        return Fact("Calico", where) if found.plugin else unknown, Fact(
            found.ipam, where
        ) if found.ipam else unknown

    def mesh(self) -> Fact[bool]:
        """Return whether all nodes are BGP peers of each other by default (node-to-node mesh)."""
        mode = self.mode()
        if mode.value in ("vxlan", "policy-only"):
            return Fact(False, f"no BGP in mode {mode.value} ({mode.source})")
        found, api = self._reading.first("BGPConfiguration", "default", V3, CRD)
        if found is not None:
            on = mapping_at(found, "spec").get("nodeToNodeMeshEnabled", True)
            return Fact(bool(on), f"BGPConfiguration default .spec.nodeToNodeMeshEnabled ({api})")
        why = self._reading.reason("BGPConfiguration default")
        if why.startswith("there is no "):
            return Fact(True, "there is no BGPConfiguration default, so the mesh is on")
        return Fact(None, f"not known: {why}")

    def dual_stack(self) -> Fact[bool]:
        cidrs = [str(value_at(pool, "spec", "cidr")) for pool in self._pools_in_use()]
        if not cidrs:
            return self._unknown("IPPool")
        return Fact(
            len({":" in cidr for cidr in cidrs}) == 2, f"cidr of IPPools: {', '.join(cidrs)}"
        )

    def apis(self, discovery: Discovery) -> Fact[tuple[str, ...]]:
        """Return the group-versions of Calico and its operator that the server serves now."""
        ours = ("projectcalico.org", "crd.projectcalico.org", "operator.tigera.io")
        listed = [one for one in discovery.group_versions() if one.partition("/")[0] in ours]
        served = tuple(
            sorted(one for one in listed if discovery.serves(one) or one not in discovery.away)
        )
        away = [
            f"{one} is listed but not served now: {discovery.away[one]}"
            for one in listed
            if one in discovery.away
        ]
        return Fact(served, "; ".join(["/apis", *away]))

    def _variable(self, daemonset: Obj | None, name: str) -> str | None:
        return variable(self._reading, daemonset, name)

    def _listed(self, kind: str) -> list[Obj]:
        return self._reading.all(V3, kind) or self._reading.all(CRD, kind)

    def _unknown(self, *labels: str) -> Fact[Any]:
        return Fact(None, f"not known: {self._reading.reason(*labels)}")


def _pool_mode(pool: Obj) -> Mode:
    return "vxlan" if mapping_at(pool, "spec").get("vxlanMode", "Never") != "Never" else "bgp"


def _within(block: str, whole: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    try:
        return ipaddress.ip_network(block).subnet_of(whole)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return False
