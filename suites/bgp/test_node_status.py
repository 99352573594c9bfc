# SPDX-License-Identifier: Apache-2.0
"""Calico reports the BGP status of Linux nodes, and not of Windows nodes."""

from conformance.fixtures import OwnNodeStatus
from conformance.marks import needs, verifies


@verifies("XSTAT-1", active=True)
@needs(v3_api=True)
def test_the_status_of_windows_nodes_stays_empty(own_node_status: OwnNodeStatus) -> None:
    own_node_status.stay_empty(
        because=(
            "no component of Calico for Windows fills a CalicoNodeStatus, unlike calico-node on "
            "Linux"
        )
    )
