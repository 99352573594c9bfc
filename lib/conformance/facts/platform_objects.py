# SPDX-License-Identifier: Apache-2.0
"""Facts about Windows nodes from the platforms' own objects, by name. The module judges nothing."""

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
    """The facts about platforms that a single test reads."""

    kube: Kube
    facts: Facts

    @property
    def windows(self) -> tuple[NodeFacts, ...]:
        return self.facts.by_os("windows")

    def windows_ipam(self) -> dict[str, Fact[str]]:
        """Return the setting ``enable-windows-ipam`` in the VPC CNI plugin's ConfigMap; ``not set``
        if the setting or the ConfigMap is absent."""
        reading = Reading(self.kube)
        name = "ConfigMap amazon-vpc-cni"
        found = reading.one("v1", "ConfigMap", "amazon-vpc-cni", "kube-system")
        missing = found is None and not reading.reason(name).startswith("there is no ")
        value = str(value_at(found, "data", "enable-windows-ipam") or "not set")
        source = "ConfigMap kube-system/amazon-vpc-cni" if found else reading.reason(name)
        return {"enable-windows-ipam": Fact(None if missing else value, source)}

    def vpc_addresses(self, node: str) -> dict[str, Fact[int]]:
        """Return the number of VPC addresses that a node can give to pods."""
        count = value_at(self.kube.get("v1", "Node", node), "status", "allocatable", ADDRESSES)
        return {f"{ADDRESSES} of node {node}": Fact(int(count or 0), "its .status.allocatable")}

    def reflector(self, node: str) -> dict[str, Fact[str]]:
        """Return a node's cluster ID as a route reflector; ``none`` if the node is no route
        reflector."""
        return {
            f"route reflector's cluster id of node {node}": Fact(
                self._annotation(node, REFLECTOR) or "none", REFLECTOR
            )
        }

    def backend(self, node: str) -> dict[str, Fact[str]]:
        """Return flannel's backend for a node's pods, such as ``host-gw`` or ``vxlan``. The fact is
        unknown if flannel has not annotated the node."""
        ((name, reported),) = self._flannel(node, "backend-type").items()
        return {
            name: Fact(reported.value, reported.source)
            if reported.value != "not set"
            else Fact(None, f"no {reported.source}")
        }

    def subnet_manager(self, node: str) -> dict[str, Fact[str]]:
        """Return flannel's annotation that is ``true`` if flannel manages a node by the Kubernetes
        API."""
        return self._flannel(node, "kube-subnet-manager")

    def _flannel(self, node: str, name: str) -> dict[str, Fact[str]]:
        """Return one of flannel's annotations of a node; ``not set`` if the node has none, for
        example because flannel keeps its data in etcd."""
        key = f"{FLANNEL}/{name}"
        return {
            f"flannel's {name} on node {node}": Fact(
                self._annotation(node, key) or "not set", f"annotation {key}"
            )
        }

    def _annotation(self, node: str, key: str) -> str:
        return (
            mapping_at(self.kube.get("v1", "Node", node), "metadata", "annotations").get(key) or ""
        )
