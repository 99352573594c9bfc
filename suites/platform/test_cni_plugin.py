# SPDX-License-Identifier: Apache-2.0
"""Windows hosts are configured for the CNI plugin of their network."""

from conformance.fixtures import CniPlugins, Readings
from conformance.marks import needs, verifies


@verifies("CNI-1")
@needs(host_process=True)
def test_every_windows_host_is_configured_for_the_plugin_of_its_network(
    cni_plugins: CniPlugins, requires: Readings
) -> None:
    because = "the container runtime starts the plugin that the alphabetically first file names"
    do = (
        "remove the files of other plugins from the CNI configuration folder of the node, "
        "and restart calico-node there"
    )
    meant = "the plugin of the node's network"
    nodes = cni_plugins.windows
    requires.that(cni_plugins.configured, meant, on=nodes, because=because, do=do)
