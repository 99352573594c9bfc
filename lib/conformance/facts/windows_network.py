# SPDX-License-Identifier: Apache-2.0
"""The network of each Windows node's pods, as far as the API shows it: CNI plugin, IPAM, overlay or
l2bridge.

The settings of the Linux DaemonSet show nothing about Windows: a cluster with win-bridge, flannel
or a cloud's plugin on Windows may have any other plugin on Linux. A pool is no proof of Calico's
IPAM, since every start of Calico without NO_DEFAULT_POOLS makes a pool (projectcalico/calico
node/pkg/lifecycle/startup); a block of the node is proof. If the API does not show the network, the
host does (:mod:`conformance.facts.node_readings`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from conformance.facts import cni_config
from conformance.facts.calico_api import ADDRESS, TUNNEL
from conformance.facts.calico_workloads import CalicoWorkloads
from conformance.facts.reading import Reading
from conformance.facts.workloads import described, variable
from conformance.kube.client import Obj
from conformance.kube.fields import mapping_at, value_at
from conformance.model import expression
from conformance.model.facts import Fact, Mode, NodeFacts

IPAM = {"Calico": "calico-ipam", "HostLocal": "host-local"}
"""The plugin's own name for each value of ``Installation.spec.cni.ipam.type``."""
CLOUDS = {"AmazonVPC": "l2bridge", "AzureVNET": "l2bridge"}
"""The type of the HNS network for each plugin of a cloud; each of these plugins has its own IPAM.
"""
OF_NETWORK = (
    ("calico", "Calico"),
    ("vpc", "AmazonVPC"),
    ("azure", "AzureVNET"),
    ("flannel", "flannel"),
)
"""Beginnings of KUBE_NETWORK that name a plugin; ``cbr0`` and ``l2bridge`` may belong to any
plugin."""
OF_BACKEND = {"vxlan": "overlay", "windows-bgp": "l2bridge"}
"""The type of the HNS network for each backend of Calico on Windows, regardless of the pools."""
FLANNEL = {"vxlan": "overlay", "host-gw": "l2bridge"}
"""The type of the HNS network for each flannel backend (annotation of a node)."""
BACKEND = "flannel.alpha.coreos.com/backend-type"
SINGLE = re.compile(r'"windows_use_single_network"\s*:\s*(true|false)')
ANY = r"(?i)calico.*|azure.*|vpc.*|cbr0.*|l2bridge.*|flannel.*"
"""Matches the networks of every plugin that Calico for Windows works with, if nothing names the
network."""
SHOWN = 80
"""The number of characters of an unreadable expression that are shown."""


class WindowsNetwork:
    """The network of a cluster's Windows pods. ``blocks`` maps each node to its blocks of Calico's
    IPAM."""

    def __init__(
        self,
        reading: Reading,
        found: CalicoWorkloads,
        installation: Obj | None,
        mode: Fact[Mode],
        blocks: Mapping[str, Sequence[str]],
    ) -> None:
        self._reading = reading
        self._found = found
        self._mode = mode
        self._blocks = blocks
        self._installation = installation or {}

    def cni(self, node: NodeFacts) -> Fact[str]:
        """Return the CNI plugin of a node's pods: ``Calico``, ``AmazonVPC``, ``AzureVNET`` or
        ``flannel``."""
        found = chain(
            self._cni_by_installation(node),
            self._cni_by_daemonset(),
            self._cni_by_traces(node),
        )
        return next(found, None) or Fact(None, f"not known: {self._silent(node)}")

    def _cni_by_installation(self, node: NodeFacts) -> Iterator[Fact[str]]:
        """Yield the Installation's plugin; yield Calico only if another source shows that Calico is
        on Windows."""
        kind = value_at(self._installation, "spec", "cni", "type")
        dataplane = value_at(self._installation, "spec", "calicoNetwork", "windowsDataplane")
        on_windows = dataplane == "HNS" or self._found.windows is not None
        if kind and (kind != "Calico" or on_windows or {ADDRESS, TUNNEL} & node.annotations.keys()):
            yield Fact(str(kind), "Installation default .spec.cni.type")

    def _cni_by_daemonset(self) -> Iterator[Fact[str]]:
        windows = self._found.windows
        backend = self._variable("CALICO_NETWORKING_BACKEND") or ""
        if backend in ("vxlan", "windows-bgp"):
            yield Fact("Calico", f"CALICO_NETWORKING_BACKEND={backend} of {described(windows)}")
        network = self._variable("KUBE_NETWORK") or ""
        yield from (
            Fact(value, f"KUBE_NETWORK={network} of {described(windows)}")
            for start, value in OF_NETWORK
            if network.lower().startswith(start)
        )

    def _cni_by_traces(self, node: NodeFacts) -> Iterator[Fact[str]]:
        """Yield the plugins that have left traces: annotations of the node, then a cloud's own
        objects."""
        if flannel := node.annotations.get(BACKEND):
            yield Fact("flannel", f"annotation {BACKEND}={flannel} of node {node.name}")
        # Before v3.20, Calico wrote its address on nodes even if another plugin was the network.
        yield from (
            Fact(
                "Calico",
                f"annotation {key} of node {node.name}, "
                "which Calico sets only where it is the pod network",
            )
            for key in ((TUNNEL,) if self._mode.value == "policy-only" else (TUNNEL, ADDRESS))
            if key in node.annotations
        )
        if self._reading.one("apps/v1", "DaemonSet", "azure-cns-win", "kube-system"):
            yield Fact("AzureVNET", "DaemonSet kube-system/azure-cns-win")
        vpc = self._reading.one("v1", "ConfigMap", "amazon-vpc-cni", "kube-system")
        if value_at(vpc, "data", "enable-windows-ipam") == "true":
            yield Fact("AmazonVPC", "ConfigMap kube-system/amazon-vpc-cni enable-windows-ipam")

    def ipam(self, node: NodeFacts, cni: Fact[str]) -> Fact[str]:
        """Return the IPAM of a node's pods: ``calico-ipam``, ``host-local``, or the IPAM of the
        cloud: ``AmazonVPC``, ``AzureVNET``."""
        found = chain(self._ipam_by_installation(cni), self._ipam_by_plugin(cni, node))
        return next(found, None) or Fact(
            None,
            f"not known: node {node.name} has no block of Calico's IPAM, and {self._silent(node)}",
        )

    def _ipam_by_installation(self, cni: Fact[str]) -> Iterator[Fact[str]]:
        """Yield the Installation's IPAM if its plugin is the plugin on Windows."""
        plugin = mapping_at(self._installation, "spec", "cni").get("type", "Calico")
        for place in ("spec", "status.computed"):
            kind = value_at(self._installation, *place.split("."), "cni", "ipam", "type")
            if kind and plugin == cni.value:
                yield Fact(
                    IPAM.get(str(kind), str(kind)), f"Installation default .{place}.cni.ipam.type"
                )

    def _ipam_by_plugin(self, cni: Fact[str], node: NodeFacts) -> Iterator[Fact[str]]:
        """Yield the IPAM that the DaemonSet names, the IPAM that always comes with the plugin, or
        the IPAM that has left traces on the node."""
        kind = self._variable("CNI_IPAM_TYPE")
        if kind:
            yield Fact(kind, f"CNI_IPAM_TYPE of {described(self._found.windows)}")
        if cni.value in CLOUDS:
            yield Fact(cni.value, f"the CNI plugin's own IPAM: {cni.source}")
        if cni.value == "flannel":
            yield Fact("host-local", f"flannel's plugin delegates to host-local: {cni.source}")
        configuration = cni_config.read(self._variable("CNI_NETWORK_CONFIG"))
        if configuration.ipam:
            yield Fact(
                configuration.ipam, f"CNI_NETWORK_CONFIG of {described(self._found.windows)}"
            )
        if node.name in self._blocks:
            yield Fact("calico-ipam", f"BlockAffinity of node {node.name}")
        if TUNNEL in node.annotations:
            yield Fact(
                "calico-ipam",
                f"annotation {TUNNEL} of node {node.name}, which is an address of Calico's IPAM",
            )

    def plane(self, node: NodeFacts, cni: Fact[str]) -> Fact[str]:
        """Return the type of the HNS network of a node's pods: ``overlay`` or ``l2bridge``."""
        if cni.value in CLOUDS:
            return Fact(CLOUDS[cni.value], f"HNS network of CNI plugin {cni.value} ({cni.source})")
        if cni.value == "flannel":
            backend = node.annotations.get(BACKEND, "")
            return Fact(
                FLANNEL.get(backend),
                f"annotation {BACKEND}={backend or '(none)'} of node {node.name}",
            )
        backend = self._variable("CALICO_NETWORKING_BACKEND") or ""
        if cni.value == "Calico" and backend in OF_BACKEND:
            where = f"CALICO_NETWORKING_BACKEND={backend} of {described(self._found.windows)}"
            return Fact(OF_BACKEND[backend], f"HNS network of CNI plugin Calico by {where}")
        if cni.value == "Calico" and self._mode.value in ("vxlan", "bgp", "policy-only"):
            plane = "overlay" if self._mode.value == "vxlan" else "l2bridge"
            return Fact(
                plane,
                f"HNS network of CNI plugin Calico in mode {self._mode.value} ({self._mode.source})",
            )
        why = cni.source if cni.value is None else f"mode {self._mode.value}: {self._mode.source}"
        return Fact(None, f"not known: {why.removeprefix('not known: ')}")

    def pod_networks(self, node: NodeFacts, ipam: Fact[str]) -> tuple[str, ...]:
        """Return the networks of a node's pods: the node's blocks of Calico's IPAM, or its
        podCIDRs. Return none for a cloud's IPAM."""
        if ipam.value == "calico-ipam":
            return tuple(self._blocks.get(node.name, ()))
        return () if ipam.value in CLOUDS else node.pod_networks

    def pod_network(self) -> Fact[str]:
        """Return the regular expression by which Felix recognises the HNS network of pods."""
        network = self._variable("KUBE_NETWORK")
        if network:
            where = f"KUBE_NETWORK of {described(self._found.windows)}"
            if problem := expression.problem(network):
                unread = f"cannot be read ({problem}), so the names that plugins use apply"
                return Fact(ANY, f"{where}, {network[:SHOWN]}, {unread}")
            return Fact(network, where)
        return Fact(ANY, "no DaemonSet sets KUBE_NETWORK, so the names that plugins use apply")

    def single_network(self) -> Fact[bool]:
        """Return whether the configuration of Calico's CNI plugin restricts a node to a single HNS
        network.

        The default is True: the operator (pkg/render/windows.go), cni-plugin's installer and the
        templates of the zip file and of RKE2 write true, and any other value was set by an
        administrator.
        """
        found = SINGLE.search(self._variable("CNI_NETWORK_CONFIG") or "")
        if found:
            where = f"windows_use_single_network in CNI_NETWORK_CONFIG of {described(self._found.windows)}"
            return Fact(found[1] == "true", where)
        return Fact(
            True,
            "no DaemonSet sets windows_use_single_network: true is assumed, since every installer of Calico "
            "sets it",
        )

    def _variable(self, name: str) -> str | None:
        return variable(self._reading, self._found.windows, name)

    def _silent(self, node: NodeFacts) -> str:
        """Return why the API does not show a node's network."""
        unread = [
            self._reading.why[kind]
            for kind in ("DaemonSet", "Installation default")
            if kind in self._reading.why
        ]
        text = f"neither a DaemonSet nor an annotation of node {node.name} shows its network"
        if self._found.windows:
            text = f"neither {described(self._found.windows)} nor an annotation of node {node.name} shows its network"
        return ", and ".join([*dict.fromkeys(unread), text])
