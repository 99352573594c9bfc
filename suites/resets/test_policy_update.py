"""Updating a policy can reset established connections of the Windows pods that it selects."""

from conformance.marks import either_way, verifies, windows_directions


@windows_directions()
@either_way("policy/resets")
@verifies("RST-1", part="{way}, {client_os} to {server_os}")
def test_a_stream_may_be_lost_and_then_comes_back(policy, upheaval, scene, way):
    side = scene.ways[way]
    policy.apply(**side.selects, guest="nobody")
    because = "the policy allows the stream before and after; only what it says of a guest is updated"
    with upheaval.of(scene.stream, beside=scene.beside, opens=side.routes, because=because):
        policy.apply(**side.selects, guest=side.welcome)
