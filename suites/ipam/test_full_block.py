# SPDX-License-Identifier: Apache-2.0
"""A node whose block is full gets no address of another node's block: its next pod waits.

On a lab whose pool has no further block, Linux nodes are filled, too.
"""

from conformance.fixtures import FullNode
from conformance.marks import needs, verifies


@verifies("IPAM-4", active=True)
@verifies("IPAM-7")
@verifies("IPAM-13", active=True)
@needs(node_fill=True)
def test_a_node_with_a_full_block_takes_no_further_pod(
    full_node: FullNode, own_nodes: tuple[str, ...]
) -> None:
    because = "a Windows node has a single block, of which four addresses are reserved"
    do = (
        "compare the output of calicoctl ipam show --show-blocks with the addresses of the node's "
        "pods"
    )
    full_node.takes_no_more(own_nodes, because=because, do=do)


@verifies("IPAM-2", active=True)
@verifies("IPAM-9", active=True)
@needs(node_fill=True)
def test_a_full_linux_node_borrows_no_address_of_windows_nodes(full_node: FullNode) -> None:
    because = "strict affinity reserves each block's addresses for the node that has the block"
    do = "check IPAM-1 and the output of calicoctl ipam show --show-borrowed"
    full_node.spares_windows_blocks(because=because, do=do)
