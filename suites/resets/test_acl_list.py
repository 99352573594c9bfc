"""Felix gives HNS a whole new ACL list for an endpoint whose policies change: what resets come from."""

from conformance.fixtures import AclLists, ConnectionsDuringChange, Policy, Scene
from conformance.marks import manifest, verifies, windows_directions


@windows_directions()
@manifest("policy/resets/ingress.yaml")
@verifies("RST-4", part="{client_os} to {server_os}")
def test_the_endpoint_gets_another_acl_list(
    policy: Policy, acl_lists: AclLists, connections_during_change: ConnectionsDuringChange, scene: Scene
) -> None:
    policy.apply(**scene.ingress.selects, guest="nobody")
    connections_during_change.begin(scene.streams, beside=scene.beside, opens=scene.ingress.routes)
    acl_lists.remember(*scene.windows)
    policy.apply(**scene.ingress.selects, guest=scene.ingress.welcome)
    connections_during_change.survive_or_reconnect(because="the policy allows the stream before and after")
    acl_lists.replaced(because="Felix replaces an endpoint's ACL list as a whole")
