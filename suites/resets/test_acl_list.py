"""Felix gives HNS a whole new ACL list for an endpoint whose policies change: what resets come from."""

from conformance.marks import manifest, verifies, windows_directions


@windows_directions()
@manifest("policy/resets/ingress.yaml")
@verifies("RST-4", part="{client_os} to {server_os}")
def test_the_endpoint_gets_another_acl_list(policy, acl_lists, upheaval, scene):
    side, because = scene.ingress, "Felix replaces an endpoint's ACL list as a whole"
    policy.apply(**side.selects, guest="nobody")
    with (
        acl_lists.given_anew(*scene.windows, because=because),
        upheaval.of(scene.stream, beside=scene.beside, opens=side.routes, because=because),
    ):
        policy.apply(**side.selects, guest=side.welcome)
