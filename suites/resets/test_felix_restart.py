# SPDX-License-Identifier: Apache-2.0
"""Restarting Felix can reset established connections of its node's Windows pods; their policies stay in force."""

from conformance.fixtures import ConnectionsDuringChange, Expect, Felix, Policy, ResetTopology
from conformance.marks import manifest, verifies

STREAMS_ALONE = "the policy lets the streams pass, and nothing else"
BECAUSE = "a new Felix gives HNS everything anew, whatever the old one gave"


@manifest("policy/resets/restart.yaml")
@verifies("RST-3", part="linux to windows")
@verifies("RST-3", part="windows to linux")
@verifies("RST-3", part="windows to windows")
def test_a_stream_may_be_lost_and_then_comes_back(
    policy: Policy,
    felix: Felix,
    expect: Expect,
    connections: ConnectionsDuringChange,
    exclusive_topology: ResetTopology,
) -> None:
    side = exclusive_topology.ingress
    streams = exclusive_topology.streams
    beside = exclusive_topology.beside
    connections.begin(streams, beside=beside)
    connections.under(policy.filled(**side.selects), closed=side.pairs, because=STREAMS_ALONE)
    back = felix.restart_each(exclusive_topology.windows_nodes)
    connections.survive_or_reconnect(
        streams, survives=beside, restarts=back, still_closed=side.pairs, because=BECAUSE
    )
    expect.removed(policy, because="without the policy everybody is let in again")
