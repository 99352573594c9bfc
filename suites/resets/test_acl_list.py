"""Felix gives HNS a whole new ACL list for an endpoint whose policies change: what resets come from."""

from conformance.fixtures import AclLists, ConnectionsDuringChange, Policy, ResetTopology
from conformance.marks import manifest, verifies, windows_directions


@windows_directions()
@manifest("policy/resets/ingress.yaml")
@verifies("RST-4", part="{client_os} to {server_os}")
def test_the_endpoint_gets_another_acl_list(
    policy: Policy, acl_lists: AclLists, connections: ConnectionsDuringChange, topology: ResetTopology
) -> None:
    policy.apply(**topology.ingress.selects, guest="nobody")
    connections.begin(topology.streams, beside=topology.beside, opens=topology.ingress.routes)
    acl_lists.remember(*topology.windows)
    policy.apply(**topology.ingress.selects, guest=topology.ingress.guest_label)
    connections.survive_or_reconnect(because="the policy allows the stream before and after")
    acl_lists.replaced(because="Felix replaces an endpoint's ACL list as a whole")
