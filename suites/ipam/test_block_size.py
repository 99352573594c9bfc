# SPDX-License-Identifier: Apache-2.0
"""The size of a pool's blocks is chosen when the pool is created, and cannot be changed later;
larger blocks have a lower share of reserved addresses."""

from conformance.fixtures import OwnPool
from conformance.marks import needs, verifies


@verifies("IPAM-5", part="size of a pool", active=True)
@needs(v3_api=True)
def test_the_size_of_a_pools_blocks_cannot_be_changed(own_pool: OwnPool) -> None:
    own_pool.keeps_its_block_size(
        because="each block has the size that the pool specified when the node claimed the block"
    )
