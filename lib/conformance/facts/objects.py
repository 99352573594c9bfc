# SPDX-License-Identifier: Apache-2.0
"""Facts from Calico's and Kubernetes' objects, by name, for claims that only need reading.

Objects are read through any API that serves them; each fact names the object, the field and that
API. The module judges nothing.
"""

import functools
import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from conformance.catalog import VERSION_REMEDY, Version
from conformance.errors import MissingCapability, NotAboutThisCluster
from conformance.facts.calico_api import ADDRESS, CRD, V3
from conformance.facts.calico_workloads import workloads
from conformance.facts.reading import Reading, required
from conformance.facts.workloads import described, variable
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import list_at, mapping_at, pod_address, value_at
from conformance.model.builds import BuildUnderCalico
from conformance.model.endpoint import Addressing, Target
from conformance.model.facts import Fact, Facts, NodeFacts

IP_POOLS_ONLY = "IPPoolsOnly"
"""The default of Felix' setting natOutgoingExclusions."""
SELECTORS = ("nodeSelector", "namespaceSelector")
"""Fields of an IPPool that select the nodes and the namespaces whose pods may use the pool."""


@dataclass
class CalicoObjects:
    """Reads objects for one worker; lists are read anew each time, since pods and blocks change."""

    kube: Kube
    facts: Facts

    @property
    def windows(self) -> tuple[NodeFacts, ...]:
        return self.facts.by_os("windows")

    def ready_nodes(self) -> dict[str, Fact[int]]:
        """Return the number of ready nodes of each OS."""
        return {
            f"ready {os} nodes": Fact(
                sum(node.ready for node in self.facts.by_os(os)), "nodes' Ready condition and OS"
            )
            for os in ("linux", "windows")
        }

    def kubernetes(self) -> dict[str, Fact[tuple[int, int]]]:
        reported = self.facts.kubernetes_version
        numbers = Version.parse(reported.value).numbers if reported.value else ()
        return {
            "Kubernetes": Fact(
                (int(numbers[0]), int(numbers[1])) if numbers else None, reported.source
            )
        }

    def calico_version(self) -> dict[str, Fact[str]]:
        """Return Calico's version, and the version on every Windows node whose version is known."""
        own = {
            f"Calico's version on node {node.name}": self.facts.calico_on_nodes[node.name]
            for node in self.facts.by_os("windows")
            if node.name in self.facts.calico_on_nodes
            and self.facts.calico_on_nodes[node.name].known
        }
        return {"Calico's version": self.facts.calico_version} | own

    def windows_builds(self) -> dict[str, Fact[BuildUnderCalico]]:
        """Return build and revision of every Windows node, with the version of Calico there.

        Raise MissingCapability if that version is not known.
        """
        found = {}
        for node in self.facts.by_os("windows"):
            calico = self.facts.calico_on(node.name)
            there = (
                BuildUnderCalico(node.windows_build, calico.value)
                if node.windows_build and calico.known
                else None
            )
            source = (
                f".status.nodeInfo.kernelVersion {node.kernel_version}; Calico: {calico.source}"
            )
            if node.windows_build and not calico.known:
                raise MissingCapability(
                    f"Calico's version on node {node.name} is not known, but it decides which "
                    f"builds are listed: {calico.source}",
                    VERSION_REMEDY,
                )
            found[f"build of node {node.name}"] = Fact(there, source)
        return found

    def kernel(self, node: str) -> dict[str, Fact[tuple[int, int]]]:
        """Return build and revision of a Windows node: ``(20348, 2762)``."""
        one = next(one for one in self.windows if one.name == node)
        return {
            f"build of node {node}": Fact(
                one.windows_build, f".status.nodeInfo.kernelVersion {one.kernel_version}"
            )
        }

    def windows_runtimes(self) -> dict[str, Fact[str]]:
        """Return the container runtime of every Windows node: ``containerd://1.7.24``."""
        return {
            f"container runtime of node {node.name}": Fact(
                node.container_runtime or None, ".status.nodeInfo.containerRuntimeVersion"
            )
            for node in self.facts.by_os("windows")
        }

    def pools(self, field: str) -> dict[str, Fact[str]]:
        """Return a field of every enabled IPv4 pool, such as ``ipipMode``."""
        found = self._of_pools(field, lambda spec: str(spec.get(field) or "Never"))
        return {f"{name} .spec.{field}": fact for name, fact in found.items()}

    def pool_cidrs(self, *, anywhere: bool = False) -> dict[str, Fact[str]]:
        """Return the CIDR of every enabled IPv4 pool that gives addresses to pods.

        ``anywhere``: only pools for pods on any node.
        """
        pools, api = self.listed("IPPool")
        return {
            f"IPPool {pool['metadata']['name']}": Fact(pool["spec"]["cidr"], f".spec.cidr ({api})")
            for pool in pools
            if not pool["spec"].get("disabled") and ":" not in pool["spec"]["cidr"]
            if "Workload" in (pool["spec"].get("allowedUses") or ["Workload"])
            if not anywhere
            or all(pool["spec"].get(key) in (None, "", "all()") for key in SELECTORS)
        }

    def api_servers(self) -> list[Target]:
        """Return the API server's own addresses outside the IP pools, behind Service
        default/kubernetes.  Raise MissingCapability if there are none."""
        label = "kubernetes.io/service-name=kubernetes"
        kind = ("discovery.k8s.io/v1", "EndpointSlice", "default")
        slices = required(
            "EndpointSlices of Service default/kubernetes",
            "list them",
            lambda: self.kube.objects(*kind, labels=label),
        )
        pools = [ipaddress.ip_network(fact.value or "") for fact in self.pool_cidrs().values()]
        found = [
            Target(
                host=address,
                port=int(port["port"]),
                protocol="tcp",
                path=Addressing.EXTERNAL,
                name="the API server",
            )
            for each in slices
            if each.get("addressType") == "IPv4"
            for port in list_at(each, "ports")
            for endpoint in list_at(each, "endpoints")
            for address in map(str, list_at(endpoint, "addresses"))
            if not any(ipaddress.ip_address(address) in pool for pool in pools)
        ]
        if not found:
            raise MissingCapability(
                "no address of the API server outside the IP pools is known "
                "(EndpointSlice of Service default/kubernetes)",
                "name a host outside the cluster: --external-target",
            )
        return found

    def shapes(self) -> dict[str, Fact[str]]:
        """Return every enabled IPv4 pool's encapsulation together with BGP, such as ``VXLAN with
        BGP disabled``."""
        bgp = self.bgp()["BGP"]
        if bgp.value is None:
            return {"BGP": bgp}

        def shape(spec: Obj) -> str:
            vxlan = spec.get("vxlanMode") or "Never"
            ipip = spec.get("ipipMode") or "Never"
            words = [
                *([] if vxlan == "Never" else ["VXLAN" if vxlan == "Always" else f"VXLAN {vxlan}"]),
                *([] if ipip == "Never" else [f"IPIP {ipip}"]),
            ]
            return f"{' and '.join(words) or 'no encapsulation'} with BGP {str(bgp.value).lower()}"

        found = self._of_pools("vxlanMode, .spec.ipipMode", shape)
        return {
            name: Fact(fact.value, f"{fact.source}; BGP: {bgp.source}")
            for name, fact in found.items()
        }

    def pool_kinds(self) -> dict[str, Fact[list[str]]]:
        """Return the kinds of IPv4 pools in the cluster: ``VXLAN``, ``IPIP``, ``no encapsulation``.

        Enabled pools count, and also disabled pools from which nodes still have blocks.
        """
        pools, api = self.listed("IPPool")
        blocks = [
            ipaddress.ip_network(block["spec"]["cidr"]) for block in self.listed("IPAMBlock")[0]
        ]
        kinds: dict[str, list[str]] = {}
        for pool in pools:
            spec = pool["spec"]
            whole = ipaddress.ip_network(spec["cidr"])
            used = any(
                block.version == whole.version and block.subnet_of(whole)  # type: ignore[arg-type]
                for block in blocks
            )
            if whole.version == 4 and (used or not spec.get("disabled")):
                modes = [
                    name
                    for name in ("vxlan", "ipip")
                    if (spec.get(f"{name}Mode") or "Never") != "Never"
                ]
                kinds.setdefault(
                    " and ".join(map(str.upper, modes)) or "no encapsulation", []
                ).append(pool["metadata"]["name"])
        source = "; ".join(
            f"{kind}: IPPool {', '.join(names)}" for kind, names in sorted(kinds.items())
        )
        return {"kinds of IPv4 pools": Fact(sorted(kinds), f"{source} ({api})")} if kinds else {}

    def network(self) -> dict[str, Fact[str]]:
        """Return the cluster's network: ``vxlan``, ``bgp``, ``policy-only``, ``mixed``."""
        mode = self.facts.mode
        return {"the network": Fact(mode.value, mode.source)}

    def bgp(self) -> dict[str, Fact[str]]:
        """Return whether BGP is ``Enabled`` or ``Disabled``, according to the Installation, else
        calico-config, else the mesh setting."""
        installation = self._find("operator.tigera.io/v1", "Installation", "default")
        if installation is not None:
            value = value_at(installation, "spec", "calicoNetwork", "bgp")
            where = "Installation default .spec.calicoNetwork.bgp"
            return {
                "BGP": Fact(str(value), where)
                if value
                else Fact("Enabled", f"{where} is not set, which enables BGP")
            }
        config = self._find("v1", "ConfigMap", "calico-config", "kube-system")
        if backend := value_at(config, "data", "calico_backend"):
            where = f"ConfigMap kube-system/calico-config calico_backend={backend}"
            return {"BGP": Fact("Enabled" if backend == "bird" else "Disabled", where)}
        found, api = self.default("BGPConfiguration")
        if found is None:
            return {
                "BGP": Fact(
                    None,
                    "there is no Installation, no calico-config and no BGPConfiguration to read",
                )
            }
        mesh = mapping_at(found, "spec").get("nodeToNodeMeshEnabled", True)
        where = f"BGPConfiguration default .spec.nodeToNodeMeshEnabled ({api})"
        return {"BGP": Fact("Enabled" if mesh else "Disabled", where)}

    def nat_exclusions(self) -> Fact[str]:
        """Return Felix' natOutgoingExclusions: the destinations to which natOutgoing does not
        apply."""
        felix, api = self.default("FelixConfiguration")
        value = value_at(felix, "spec", "natOutgoingExclusions") if felix else None
        where = f"FelixConfiguration default .spec.natOutgoingExclusions ({api})"
        return (
            Fact(str(value), where)
            if value
            else Fact(IP_POOLS_ONLY, f"{where} is not set, so the default applies")
        )

    def mtu(self) -> Fact[int]:
        """Return the MTU that is configured for pods. The MTU is unknown if none is configured,
        since Calico detects it then."""
        ruling = self.facts.felix_overrides.get("linux", {}).get("vxlanMTU")
        found: dict[str, object] = {ruling.source: ruling.value} if ruling else {}
        installation = self._find("operator.tigera.io/v1", "Installation", "default")
        if installation is not None:
            where = "Installation default .spec.calicoNetwork.mtu"
            found[where] = value_at(installation, "spec", "calicoNetwork", "mtu")
        config = self._find("v1", "ConfigMap", "calico-config", "kube-system")
        if config is not None:
            found["ConfigMap kube-system/calico-config veth_mtu"] = value_at(
                config, "data", "veth_mtu"
            )
        felix, api = self.default("FelixConfiguration")
        if felix is not None:
            where = f"FelixConfiguration default .spec.vxlanMTU ({api})"
            found[where] = value_at(felix, "spec", "vxlanMTU")
        for where, value in found.items():
            if str(value or "0").isdigit() and int(str(value or 0)):
                return Fact(int(str(value)), where)
        return Fact(None, f"not set in {', '.join(found) or 'any object that could be read'}")

    def datastore(self) -> dict[str, Fact[str]]:
        """Return mode and datastore as one phrase: ``vxlan on kubernetes``, ``vxlan on etcd by
        manual``. The way of installation is added only for etcd, since every way works with the
        Kubernetes API."""
        mode = self.facts.mode
        datastore = self.facts.datastore
        install = self.facts.install
        asked: list[Fact[Any]] = [
            mode,
            datastore,
            *([install] if datastore.value == "etcd" else []),
        ]
        unknown = next((fact for fact in asked if fact.value is None), None)
        if unknown is not None:
            return {"mode and datastore": Fact(None, unknown.source)}
        source = (
            f"mode: {mode.source}; datastore: {datastore.source}; installation: {install.source}"
        )
        phrase = f"{mode.value} on {datastore.value}" + (
            f" by {install.value}" if datastore.value == "etcd" else ""
        )
        return {"mode and datastore": Fact(phrase, source)}

    def annotations(self) -> dict[str, dict[str, str]]:
        """Return the annotations of every node, as they are now."""
        return {
            found["metadata"]["name"]: mapping_at(found, "metadata", "annotations")
            for found in self.kube.objects("v1", "Node")
        }

    def announced(self, node: str) -> dict[str, Fact[str]]:
        """Return a fact about the address that a node announces: ``an address`` or ``none``. Only
        the host, which may have many addresses, shows whether the announced address is the node's
        own."""
        reported = value_at(self.kube.get("v1", "Node", node), "metadata", "annotations", ADDRESS)
        return {
            f"annotation {ADDRESS} of node {node}": Fact(
                "an address" if reported else "none", reported or "(none)"
            )
        }

    def datastore_types(self) -> dict[str, Fact[str]]:
        """Return DATASTORE_TYPE of Calico on Linux and on Windows: ``the same``, or both.

        Raise NotAboutThisCluster if Calico on either system is no DaemonSet, because then its
        settings are on the hosts.
        """
        reading = Reading(self.kube)
        found = workloads(reading)
        if found.windows is None or found.linux is None:
            raise NotAboutThisCluster(
                "it is about Calico DaemonSets for both Linux and Windows; here: not both exist"
            )
        linux, windows = (
            variable(reading, one, "DATASTORE_TYPE") for one in (found.linux, found.windows)
        )
        value = "the same" if linux == windows else f"{linux} on Linux, {windows} on Windows"
        source = f"{described(found.linux)}, {described(found.windows)}: {windows}"
        return {"DATASTORE_TYPE": Fact(value if linux and windows else None, source)}

    def by_another(self, hop: str, owner: str) -> str:
        """Return the node whose address is the next hop to the pods of ``owner``, if this is a
        third node.

        Return an empty string if the next hop is no third node, or if a BGPPeer sets the next hop.
        """
        other = next(
            (node.name for node in self.facts.nodes if hop and hop == address_of(node)), owner
        )
        if other == owner or any(
            one["spec"].get("nextHopMode") == "Self" for one in self.listed("BGPPeer")[0]
        ):
            return ""
        return other

    def strict_affinity(self) -> dict[str, Fact[bool]]:
        """Return IPAM's strictAffinity. If there is no such object, the value is Calico's default,
        false."""
        for api, kind in ((V3, "IPAMConfiguration"), (CRD, "IPAMConfig")):
            if self.kube.discovery.serves(api, kind):
                found = self._find(api, kind, "default")
                where = f"{kind} default .spec.strictAffinity ({api})"
                if found is None:
                    return {
                        f"{kind} default": Fact(
                            False, f"there is no {kind} default ({api}), and false is the default"
                        )
                    }
                value = (found.get("spec") or {}).get("strictAffinity", False)
                return {f"{kind} default .spec.strictAffinity": Fact(bool(value), where)}
        return {"IPAM's strictAffinity": Fact(None, f"neither {V3} nor {CRD} is served")}

    def blocks(self, *, of_all: bool = False) -> dict[str, Fact[list[str]]]:
        """Return the confirmed blocks of every Windows node; with ``of_all``, of every node."""
        affinities, api = self.listed("BlockAffinity")
        names = [
            node.name for node in (self.facts.nodes if of_all else self.facts.by_os("windows"))
        ]
        found: dict[str, list[str]] = {name: [] for name in names}
        for affinity in affinities:
            spec = affinity["spec"]
            if spec.get("node") in found and confirmed(spec):
                found[spec["node"]].append(spec["cidr"])
        return {
            f"blocks of node {name}": Fact(sorted(cidrs), f"BlockAffinities ({api})")
            for name, cidrs in found.items()
        }

    def in_pod_cidr(self, node: str) -> dict[str, Fact[str]]:
        """Return a fact about the address of every pod of a node: ``in its node's podCIDR`` if the
        address lies there, else the address."""
        spec = self.kube.get("v1", "Node", node)["spec"]
        cidrs = [
            one for one in spec.get("podCIDRs") or [spec.get("podCIDR")] if one and ":" not in one
        ]
        networks = [ipaddress.IPv4Network(cidr) for cidr in cidrs]
        return {
            f"address of pod {pod['metadata']['name']} on node {node}": Fact(
                "in its node's podCIDR"
                if any(address in network for network in networks)
                else str(address),
                f"podCIDR {', '.join(cidrs) or 'none'}",
            )
            for pod, address in self.pods(node)
        }

    def pods(self, node: str) -> Iterator[tuple[Obj, ipaddress.IPv4Address]]:
        """Yield the pods of a node that have an IPv4 address of their own."""
        for pod in self.kube.objects("v1", "Pod", fields=f"spec.nodeName={node}"):
            status = pod.get("status") or {}
            address = pod_address(status)
            over = status.get("phase") in ("Succeeded", "Failed")  # other pods may get its address
            if address and ":" not in address and not over and not pod["spec"].get("hostNetwork"):
                yield pod, ipaddress.IPv4Address(address)

    def listed(self, kind: str) -> tuple[list[Obj], str]:
        """Return all objects of a kind, and the API that served them. Raise MissingCapability if
        they cannot be read."""
        for api in (V3, CRD):
            if self.kube.discovery.serves(api, kind):
                return required(
                    f"{kind} ({api})", "list it", functools.partial(self.kube.objects, api, kind)
                ), api
        raise MissingCapability(
            f"the cluster serves {kind} neither by {V3} nor by {CRD}",
            "look for Calico's objects in another datastore: see DATASTORE_TYPE of calico-node",
        )

    def default(self, kind: str) -> tuple[Obj | None, str]:
        """Return the object ``default`` of a kind, and the API that serves it; (None, an empty
        string) if no API does."""
        for api in (V3, CRD):
            if found := self._find(api, kind, "default"):
                return found, api
        return None, ""

    def serves(self, kind: str) -> bool:
        """Return whether the cluster serves this kind of Calico's API."""
        return any(self.kube.discovery.serves(api, kind) for api in (V3, CRD))

    def _of_pools(self, field: str, value: Callable[[Obj], str]) -> dict[str, Fact[str]]:
        pools, api = self.listed("IPPool")
        return {
            f"IPPool {pool['metadata']['name']}": Fact(
                value(pool["spec"]), f".spec.{field} ({api})"
            )
            for pool in pools
            if not pool["spec"].get("disabled") and ":" not in pool["spec"]["cidr"]
        }

    def _find(self, api: str, kind: str, name: str, namespace: str | None = None) -> Obj | None:
        return required(
            f"{kind} {name}",
            "get it",
            functools.partial(self.kube.find, api, kind, name, namespace),
        )


def address_of(node: NodeFacts) -> str:
    """Return the address that a node announces to other nodes; an empty string if it announces
    none."""
    return node.annotations.get(ADDRESS, "").partition("/")[0]


def confirmed(spec: Obj) -> bool:
    """Return whether a BlockAffinity gives its block to its node: it is confirmed and not being
    deleted."""
    return spec.get("state") == "confirmed" and str(spec.get("deleted", "false")).lower() != "true"
