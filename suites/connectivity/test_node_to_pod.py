"""A Linux node reaches pods by their addresses, on its own node and on others, and is seen as that node."""

import pytest

from conformance.marks import needs, verifies

pytestmark = [verifies("CONN-1", part="node to {server}")]


@pytest.mark.parametrize("server", ["linux-server", pytest.param("linux-peer", marks=needs(linux=2)), "windows-server"])
def test_a_linux_node_reaches_a_pod(pods, addresses, expect, server):
    node, target = pods.of("linux-node", server)
    because = "a node talks to pods under its own address, or under that of its overlay device"
    expect.source_is(node, target.tcp(8080), addresses.of_node(node), because=because)
