"""Restarting Felix can reset established connections of its node's Windows pods; their policies stay in force."""

from conformance.fixtures import Expect, Felix, Policy, Scene, Upheaval
from conformance.marks import manifest, verifies, windows_directions


@windows_directions()
@manifest("policy/resets/restart.yaml")
@verifies("RST-3", part="{client_os} to {server_os}")
def test_a_stream_may_be_lost_and_then_comes_back(
    policy: Policy, felix: Felix, expect: Expect, upheaval: Upheaval, own_scene: Scene
) -> None:
    side = own_scene.ingress
    expect.controls([side.routes], because="no policy is in force yet")
    policy.apply(**side.selects)
    upheaval.begin(own_scene.streams, beside=own_scene.beside, keeps_closed=side.routes)
    restarts = felix.restart_each(own_scene.windows_nodes)
    upheaval.may_lose(restarts=restarts, because="a new Felix gives HNS everything anew, whatever the old one gave")
