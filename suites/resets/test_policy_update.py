# SPDX-License-Identifier: Apache-2.0
"""Updating a policy can reset established connections of the Windows pods that it selects."""

from conformance.fixtures import ConnectionsDuringChange, Policy, ResetTopology
from conformance.marks import either_way, verifies, windows_directions

NOBODY = "the policy lets the streams pass, and no guest"
BECAUSE = "the policy allows the stream before and after; what it says of a guest is updated"


@windows_directions()
@either_way("policy/resets/{way}.yaml")
@verifies("RST-1", part="{way}, {client_os} to {server_os}")
def test_a_stream_may_be_lost_and_then_comes_back(
    policy: Policy, connections: ConnectionsDuringChange, topology: ResetTopology, way: str
) -> None:
    side = topology.ways[way]
    streams = topology.streams
    beside = topology.beside
    connections.begin(streams, beside=beside)
    connections.under(
        policy.filled(**side.selects, guest="nobody"), closed=side.pairs, because=NOBODY
    )
    policy.apply(**side.selects, guest=side.guest_label)
    connections.survive_or_reconnect(streams, survives=beside, opened=side.pairs, because=BECAUSE)
