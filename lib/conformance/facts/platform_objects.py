# SPDX-License-Identifier: Apache-2.0
"""What platforms' own objects say of Windows nodes, as facts by name.  It judges nothing."""

from dataclasses import dataclass

from conformance.facts.reading import Reading
from conformance.kube.client import Kube
from conformance.kube.fields import mapping_at, value_at
from conformance.model.facts import Fact, Facts, NodeFacts

ADDRESSES = "vpc.amazonaws.com/PrivateIPv4Address"
REFLECTOR = "projectcalico.org/RouteReflectorClusterID"
FLANNEL = "flannel.alpha.coreos.com"
"""Prefix of the annotations that flannel gives to nodes (flannel-io/flannel pkg/subnet/kube)."""


@dataclass(frozen=True)
class PlatformObjects:
    """Reads of one test."""

    kube: Kube
    facts: Facts

    @property
    def windows(self) -> tuple[NodeFacts, ...]:
        return self.facts.by_os("windows")

    def windows_ipam(self) -> dict[str, Fact[str]]:
        """``enable-windows-ipam`` of the VPC CNI plugin's ConfigMap; ``not set`` also where there
        is no such object."""
        reading = Reading(self.kube)
        name = "ConfigMap amazon-vpc-cni"
        found = reading.one("v1", "ConfigMap", "amazon-vpc-cni", "kube-system")
        missing = found is None and not reading.reason(name).startswith("there is no ")
        value = str(value_at(found, "data", "enable-windows-ipam") or "not set")
        source = "ConfigMap kube-system/amazon-vpc-cni" if found else reading.reason(name)
        return {"enable-windows-ipam": Fact(None if missing else value, source)}

    def vpc_addresses(self, node: str) -> dict[str, Fact[int]]:
        """How many addresses of the VPC a node has to give to pods."""
        count = value_at(self.kube.get("v1", "Node", node), "status", "allocatable", ADDRESSES)
        return {f"{ADDRESSES} of node {node}": Fact(int(count or 0), "its .status.allocatable")}

    def reflector(self, node: str) -> dict[str, Fact[str]]:
        """The reflector's cluster id that a node has, ``none`` where it is no reflector."""
        return {
            f"route reflector's cluster id of node {node}": Fact(
                self._annotation(node, REFLECTOR) or "none", REFLECTOR
            )
        }

    def backend(self, node: str) -> dict[str, Fact[str]]:
        """What flannel says that carries a node's pods: ``host-gw``, ``vxlan`` ...; not known where
        it says nothing."""
        ((name, told),) = self._flannel(node, "backend-type").items()
        return {
            name: Fact(told.value, told.source)
            if told.value != "not set"
            else Fact(None, f"no {told.source}")
        }

    def subnet_manager(self, node: str) -> dict[str, Fact[str]]:
        """Whether flannel manages a node by the Kubernetes API, which it says there itself:
        ``true``."""
        return self._flannel(node, "kube-subnet-manager")

    def _flannel(self, node: str, name: str) -> dict[str, Fact[str]]:
        """One of flannel's annotations of a node; ``not set`` where it has none, as with flannel's
        data in etcd."""
        key = f"{FLANNEL}/{name}"
        return {
            f"flannel's {name} on node {node}": Fact(
                self._annotation(node, key) or "not set", f"annotation {key}"
            )
        }

    def _annotation(self, node: str, key: str) -> str:
        found = self.kube.get("v1", "Node", node)
        return mapping_at(found, "metadata", "annotations").get(key) or ""
