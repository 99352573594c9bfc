# SPDX-License-Identifier: Apache-2.0
"""A change in what a policy's selector matches can reset established connections of the Windows pods it selects."""

from conformance.fixtures import ConnectionsDuringChange, Policy, Relabel, ResetTopology
from conformance.marks import either_way, verifies, windows_directions

NOBODY = "the policy lets the streams pass, and pods with a label that none has"
BECAUSE = "the policy is not touched; a pod that one of its rules selects comes"


@windows_directions()
@either_way("policy/resets/membership-{way}.yaml")
@verifies("RST-2", part="{way}, {client_os} to {server_os}")
def test_a_stream_may_be_lost_and_then_comes_back(
    policy: Policy,
    relabel: Relabel,
    connections: ConnectionsDuringChange,
    topology: ResetTopology,
    way: str,
) -> None:
    side = topology.ways[way]
    streams = topology.streams
    beside = topology.beside
    connections.begin(streams, beside=beside)
    connections.under(policy.filled(**side.selects), closed=side.pairs, because=NOBODY)
    relabel.label_as_guest(side.guest)
    connections.survive_or_reconnect(streams, survives=beside, opened=side.pairs, because=BECAUSE)
