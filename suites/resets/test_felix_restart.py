"""Restarting Felix can reset established connections of its node's Windows pods; their policies stay in force."""

from conformance.marks import manifest, verifies, windows_directions


@windows_directions()
@manifest("policy/resets/restart.yaml")
@verifies("RST-3", part="{client_os} to {server_os}")
def test_a_stream_may_be_lost_and_then_comes_back(policy, felix, expect, upheaval, own_scene):
    side, watched, beside = own_scene.ingress, own_scene.stream, own_scene.beside
    expect.control(side.guest, side.targets, because="no policy is in force yet")
    policy.apply(**side.selects)
    because = "a new Felix knows nothing of what the old one gave HNS, and gives every endpoint its list anew"
    given = {"gives_anew": own_scene.windows, "keeps_closed": side.routes}
    with upheaval.of(watched, beside=beside, because=because, **given):
        felix.restart(own_scene.windows[0].node)
