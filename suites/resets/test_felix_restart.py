"""Restarting Felix can reset established connections of its node's Windows pods; their policies stay in force."""

from conformance.fixtures import ConnectionsDuringChange, Expect, Felix, Policy, ResetTopology
from conformance.marks import manifest, verifies, windows_directions


@windows_directions()
@manifest("policy/resets/restart.yaml")
@verifies("RST-3", part="{client_os} to {server_os}")
def test_a_stream_may_be_lost_and_then_comes_back(
    policy: Policy,
    felix: Felix,
    expect: Expect,
    connections: ConnectionsDuringChange,
    exclusive_topology: ResetTopology,
) -> None:
    side = exclusive_topology.ingress
    expect.controls([side.routes], because="no policy is in force yet")
    policy.apply(**side.selects)
    connections.begin(exclusive_topology.streams, beside=exclusive_topology.beside, keeps_closed=side.routes)
    restarts = felix.restart_each(exclusive_topology.windows_nodes)
    connections.survive_or_reconnect(
        restarts=restarts, because="a new Felix gives HNS everything anew, whatever the old one gave"
    )
