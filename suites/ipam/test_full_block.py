# SPDX-License-Identifier: Apache-2.0
"""A Windows node whose block is full gets no address from elsewhere: its next pod waits."""

from conformance.fixtures import FullNode
from conformance.marks import needs, verifies


@verifies("IPAM-4", active=True)
@verifies("IPAM-7")
@needs(node_fill=True)
def test_a_node_with_a_full_block_takes_no_further_pod(
    full_node: FullNode, own_nodes: tuple[str, ...]
) -> None:
    because = "a Windows node has a single block, of which four addresses are reserved"
    do = "compare calicoctl ipam show --show-blocks with the addresses of the node's pods"
    full_node.takes_no_more(own_nodes, because=because, do=do)
