# SPDX-License-Identifier: Apache-2.0
"""Compares the CNI plugin in a Windows host's configuration with the plugin of the node's
network."""

from collections.abc import Sequence
from dataclasses import dataclass

from conformance.facts import cni_config
from conformance.facts.node_readings import CNIS, Hosts
from conformance.model.facts import Announced, Facts, NodeFacts

MEANT = "the plugin of the node's network"
ON_NODE = "CNI configuration on node"


@dataclass(frozen=True)
class CniPlugins:
    """The readings of a test about the CNI plugin."""

    hosts: Hosts
    facts: Facts
    windows: Sequence[NodeFacts]
    """The nodes that may be read by HostProcess pods."""

    def configured(self, node: str) -> dict[str, Announced]:
        """Return whether a host's CNI configuration names the plugin of the node's network.

        The fact is unknown if this configuration is the only source that shows the plugin of the
        node's network.
        """
        name = f"type in the CNI configuration of node {node}"
        cni = next(one for one in self.windows if one.name == node).cni or self.facts.cni
        if not cni.known or cni.source.startswith(ON_NODE):
            return {name: Announced(None, f"no other source names the plugin: {cni.source}")}
        wanted = {plugin for plugin, known in CNIS.items() if known == cni.value} or {
            str(cni.value)
        }
        found = cni_config.on_node(self.hosts.cni_configuration(node)).plugin
        shown = found or "no plugin, or several files with different plugins"
        text = " or ".join(sorted(map(str, wanted)))
        source = f"{ON_NODE}; the network is {cni.value}: {cni.source}"
        return {name: Announced(MEANT if found in wanted else shown, source, wanted=text)}
