"""Updating a policy can reset established connections of the Windows pods that it selects."""

from conformance.fixtures import ConnectionsDuringChange, Policy, Scene
from conformance.marks import either_way, verifies, windows_directions


@windows_directions()
@either_way("policy/resets/{way}.yaml")
@verifies("RST-1", part="{way}, {client_os} to {server_os}")
def test_a_stream_may_be_lost_and_then_comes_back(
    policy: Policy, connections_during_change: ConnectionsDuringChange, scene: Scene, way: str
) -> None:
    side = scene.ways[way]
    policy.apply(**side.selects, guest="nobody")
    connections_during_change.begin(scene.streams, beside=scene.beside, opens=side.routes)
    policy.apply(**side.selects, guest=side.welcome)
    connections_during_change.survive_or_reconnect(
        because="the policy allows the stream before and after; what it says of a guest is updated"
    )
