"""Restarting Felix can reset established connections of its node's Windows pods; their policies stay in force."""

from conformance.fixtures import ConnectionsDuringChange, Expect, Felix, Policy, Scene
from conformance.marks import manifest, verifies, windows_directions


@windows_directions()
@manifest("policy/resets/restart.yaml")
@verifies("RST-3", part="{client_os} to {server_os}")
def test_a_stream_may_be_lost_and_then_comes_back(
    policy: Policy, felix: Felix, expect: Expect, connections_during_change: ConnectionsDuringChange, own_scene: Scene
) -> None:
    side = own_scene.ingress
    expect.controls([side.routes], because="no policy is in force yet")
    policy.apply(**side.selects)
    connections_during_change.begin(own_scene.streams, beside=own_scene.beside, keeps_closed=side.routes)
    restarts = felix.restart_each(own_scene.windows_nodes)
    connections_during_change.survive_or_reconnect(
        restarts=restarts, because="a new Felix gives HNS everything anew, whatever the old one gave"
    )
