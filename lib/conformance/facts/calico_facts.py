"""Calico's version, mode, datastore, installation and CNI, as its own objects and workloads say them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from conformance.facts import cni_config
from conformance.facts.calico_nodes import image_version
from conformance.facts.reading import Reading
from conformance.facts.workloads import all_containers, described, variable
from conformance.kube.client import Obj
from conformance.model.facts import Fact, Mode, NodeFacts

V3, CRD = "projectcalico.org/v3", "crd.projectcalico.org/v1"
NAMESPACES = ("calico-system", "kube-system")
BACKENDS: dict[str, Mode] = {"vxlan": "vxlan", "windows-bgp": "bgp", "bird": "bgp", "none": "policy-only"}

IPAM = {"Calico": "calico-ipam", "HostLocal": "host-local"}
"""Values of ``Installation.spec.cni.ipam.type`` to the plugins' own names."""


class CalicoReading:
    """Facts about Calico from one reading of the cluster."""

    def __init__(self, reading: Reading, nodes: Sequence[NodeFacts]) -> None:
        self._reading, self._nodes = reading, nodes
        self._installation = reading.one("operator.tigera.io/v1", "Installation", "default")
        self._information, self._information_at = reading.first("ClusterInformation", "default", V3, CRD)
        self._windows = self._daemonset("calico-node-windows")
        self._linux = self._daemonset("calico-node")

    def _daemonset(self, name: str) -> Obj | None:
        return next(
            (one for space in NAMESPACES if (one := self._reading.one("apps/v1", "DaemonSet", name, space))), None
        )

    def version(self) -> Fact[str]:
        """``v3.31.2``."""
        spec = (self._information or {}).get("spec") or {}
        if spec.get("calicoVersion"):
            where = f"ClusterInformation default .spec.calicoVersion ({self._information_at})"
            return Fact(str(spec["calicoVersion"]), where)
        status = (self._installation or {}).get("status") or {}
        if status.get("calicoVersion"):
            return Fact(str(status["calicoVersion"]), "Installation default .status.calicoVersion")
        for daemonset in (self._linux, self._windows):
            for container in all_containers(daemonset):
                version = image_version(str(container.get("image")))
                if version:
                    return Fact(version, f"image of {described(daemonset)}")
        return self._unknown("ClusterInformation default", "Installation default", "DaemonSet calico-node")

    def mode(self) -> Fact[Mode]:
        """How Windows pods are networked: the backend of calico-node-windows, else the Installation, else the pools."""
        for daemonset in (self._windows, self._linux):
            backend = self._variable(daemonset, "CALICO_NETWORKING_BACKEND")
            if backend in BACKENDS:
                where = f"CALICO_NETWORKING_BACKEND={backend} of {described(daemonset)}"
                if BACKENDS[backend] == "bgp" and any(_pool_mode(pool) == "vxlan" for pool in self.pools()):
                    return Fact("mixed", f"{where}, while an IPPool has vxlanMode")
                return Fact(BACKENDS[backend], where)
        spec = (self._installation or {}).get("spec") or {}
        if spec:
            network, where = spec.get("calicoNetwork") or {}, "Installation default .spec"
            if (spec.get("cni") or {}).get("type", "Calico") != "Calico":
                return Fact("policy-only", f"{where}.cni.type")
            if network.get("bgp"):
                return Fact("bgp" if network["bgp"] == "Enabled" else "vxlan", f"{where}.calicoNetwork.bgp")
        modes = {_pool_mode(pool) for pool in self.pools()}
        if len(modes) == 1:
            return Fact(modes.pop(), "IPPools' vxlanMode and ipipMode")
        if modes:
            return Fact("mixed", "IPPools' vxlanMode and ipipMode differ")
        return self._unknown("DaemonSet calico-node-windows", "Installation default", "IPPool")

    def pools(self) -> list[Obj]:
        """IPPools by whichever API serves them."""
        return self._reading.all(V3, "IPPool") or self._reading.all(CRD, "IPPool")

    def datastore(self) -> Fact[Literal["kubernetes", "etcd"]]:
        """Where Calico keeps its data."""
        for daemonset in (self._linux, self._windows):
            kind = self._variable(daemonset, "DATASTORE_TYPE")
            if kind == "kubernetes":
                return Fact("kubernetes", f"DATASTORE_TYPE of {described(daemonset)}")
            if kind == "etcdv3" or self._variable(daemonset, "ETCD_ENDPOINTS"):
                return Fact("etcd", f"DATASTORE_TYPE or ETCD_ENDPOINTS of {described(daemonset)}")
        if self._installation is not None:
            return Fact("kubernetes", "Installation default: the operator supports no other")
        if self._information is not None:
            return Fact("kubernetes", f"ClusterInformation default is a custom resource ({self._information_at})")
        return self._unknown("DaemonSet calico-node", "ClusterInformation default")

    def install(self) -> Fact[Literal["operator", "manifest", "manual"]]:
        """How Calico came onto the Windows nodes: operator, manifest, or by hand as Windows services."""
        if self._installation is not None:
            dataplane = ((self._installation.get("spec") or {}).get("calicoNetwork") or {}).get("windowsDataplane")
            if self._windows is not None or dataplane == "HNS" or not self._windows_nodes():
                return Fact("operator", "Installation default")
        if self._windows is not None:
            return Fact("manifest", described(self._windows))
        annotated = [node for node in self._windows_nodes() if "projectcalico.org/IPv4Address" in node.annotations]
        if annotated:
            where = f"node {annotated[0].name} is Calico's (annotation), without a DaemonSet calico-node-windows"
            return Fact("manual", where)
        if self._linux is not None and not self._windows_nodes():
            return Fact("manifest", described(self._linux))
        return self._unknown("Installation default", "DaemonSet calico-node-windows")

    def _windows_nodes(self) -> list[NodeFacts]:
        return [node for node in self._nodes if node.os == "windows"]

    def cni(self) -> Fact[str]:
        """The CNI plugin: ``Calico``, ``AmazonVPC``, ``AzureVNET`` ..."""
        kind = (((self._installation or {}).get("spec") or {}).get("cni") or {}).get("type")
        if kind:
            return Fact(str(kind), "Installation default .spec.cni.type")
        for name, value in (("aws-node", "AmazonVPC"), ("azure-cns", "AzureVNET")):
            if self._reading.one("apps/v1", "DaemonSet", name, "kube-system"):
                return Fact(value, f"DaemonSet kube-system/{name}")
        network = self._variable(self._windows, "KUBE_NETWORK") or ""
        for start, value in (("calico", "Calico"), ("vpc", "AmazonVPC"), ("azure", "AzureVNET")):
            if network.lower().startswith(start):
                return Fact(value, f"KUBE_NETWORK={network} of {described(self._windows)}")
        if any("projectcalico.org/IPv4VXLANTunnelAddr" in node.annotations for node in self._nodes):
            return Fact("Calico", "nodes have Calico VXLAN tunnel addresses")
        configuration, where = self._network_configuration()
        if configuration.plugin:
            return Fact("Calico", where)
        return self._unknown("Installation default", "DaemonSet calico-node-windows")

    def ipam(self) -> Fact[str]:
        """The IPAM plugin of pods: ``calico-ipam``, ``host-local``, or that of the cloud: ``AmazonVPC``,
        ``AzureVNET``."""
        for place in ("spec", "status.computed"):
            part: Any = self._installation or {}
            for key in place.split("."):
                part = part.get(key) or {}
            kind = ((part.get("cni") or {}).get("ipam") or {}).get("type")
            if kind:
                return Fact(IPAM.get(str(kind), str(kind)), f"Installation default .{place}.cni.ipam.type")
        kind = self._variable(self._windows, "CNI_IPAM_TYPE")
        if kind:
            return Fact(kind, f"CNI_IPAM_TYPE of {described(self._windows)}")
        cni = self.cni()
        if cni.value not in (None, "Calico"):
            return Fact(cni.value, f"the CNI plugin's own: {cni.source}")
        configuration, where = self._network_configuration()
        if configuration.ipam:
            return Fact(configuration.ipam, where)
        affinities = self._reading.all(V3, "BlockAffinity") or self._reading.all(CRD, "BlockAffinity")
        if having := {str(one["spec"].get("node")) for one in affinities} & {
            node.name for node in self._windows_nodes()
        }:
            return Fact("calico-ipam", f"BlockAffinities of {', '.join(sorted(having))}")
        return self._unknown("Installation default", "DaemonSet calico-node-windows", "DaemonSet calico-node")

    def apis(self, groups: Sequence[str]) -> Fact[tuple[str, ...]]:
        """Group-versions of Calico and its operator that the server serves."""
        ours = ("projectcalico.org", "crd.projectcalico.org", "operator.tigera.io")
        return Fact(tuple(sorted(group for group in groups if group.partition("/")[0] in ours)), "/apis")

    def _variable(self, daemonset: Obj | None, name: str) -> str | None:
        return variable(self._reading, daemonset, name)

    def _network_configuration(self) -> tuple[cni_config.CniConfig, str]:
        """The first CNI network configuration that names Calico as its plugin, and where it is."""
        for daemonset in (self._windows, self._linux):
            found = cni_config.read(self._variable(daemonset, "CNI_NETWORK_CONFIG"))
            if found.plugin:
                return found, f"CNI_NETWORK_CONFIG of {described(daemonset)}"
        return cni_config.CniConfig(), ""

    def _unknown(self, *labels: str) -> Fact[Any]:
        return Fact(None, f"not known: {self._reading.reason(*labels)}")


def _pool_mode(pool: Obj) -> Mode:
    return "vxlan" if (pool.get("spec") or {}).get("vxlanMode", "Never") != "Never" else "bgp"
