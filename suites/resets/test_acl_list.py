# SPDX-License-Identifier: Apache-2.0
"""Felix gives HNS a whole new ACL list for an endpoint whose policies change: what resets come from."""

from conformance.fixtures import AclLists, ConnectionsDuringChange, Policy, ResetTopology
from conformance.marks import manifest, verifies, windows_directions

NOBODY = "the policy lets the streams pass, and no guest"
BECAUSE = "the policy allows the stream before and after"


@windows_directions()
@manifest("policy/resets/ingress.yaml")
@verifies("RST-4", part="{client_os} to {server_os}")
def test_a_stream_is_lost_where_the_endpoint_gets_another_acl_list(
    policy: Policy,
    acl_lists: AclLists,
    connections: ConnectionsDuringChange,
    topology: ResetTopology,
) -> None:
    side = topology.ingress
    streams = topology.streams
    beside = topology.beside
    connections.begin(streams, beside=beside)
    connections.under(
        policy.filled(**side.selects, guest="nobody"), closed=side.pairs, because=NOBODY
    )
    acl_lists.remember(*topology.windows)
    policy.apply(**side.selects, guest=side.guest_label)
    states = connections.survive_or_reconnect(
        streams, survives=beside, opened=side.pairs, because=BECAUSE
    )
    acl_lists.replaced(states, because="Felix replaces an endpoint's ACL list as a whole")
