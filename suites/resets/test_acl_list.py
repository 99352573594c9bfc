# SPDX-License-Identifier: Apache-2.0
"""Felix gives HNS a whole new ACL list for an endpoint whose policies changed. This causes the
resets."""

from conformance.fixtures import AclLists, Case, ConnectionsDuringChange, Policy, WorkerPods
from conformance.marks import manifest, verifies

STREAMS = "the policy allows port 9000, which streams use, to everybody"
NOT_IN = "the policy allows port 9000 to everybody, and other ports to a label that no pod has"
IN = "the policy was updated and now allows all ports to this client's label"
UPDATED = "the policy allows the streams before and after the update"
REPLACED = "Felix replaces an endpoint's ACL list as a whole"


@manifest("policy/resets/ingress.yaml")
@verifies("RST-4", part="linux to windows")
@verifies("RST-4", part="windows to linux")
@verifies("RST-4", part="windows to windows")
def test_a_stream_is_lost_where_the_endpoint_gets_another_acl_list(
    pods: WorkerPods, policy: Policy, acl_lists: AclLists, connections: ConnectionsDuringChange
) -> None:
    client = pods.clients("linux").one_per_os()
    server = pods.servers("linux").one_per_os()
    clients = pods.clients("windows")
    servers = pods.servers("windows")
    streams = client.to(servers) + clients.to(server) + clients.beside(servers)
    (beside,) = client.to(server)
    selected = clients + servers + server
    connections.begin(streams, beside=beside)
    connections.under(
        policy.filled(selected=selected, guest="nobody"),
        Case(client, selected, tcp=8080, open=False, because=NOT_IN),
        Case(client, server, tcp=9000, open=True, because=STREAMS),
    )
    acl_lists.remember(*clients, *servers)
    policy.apply(selected=selected, guest="linux-client")
    states = connections.survive_or_reconnect(
        streams,
        Case(client, selected, tcp=8080, open=True, because=IN),
        survives=beside,
        because=UPDATED,
    )
    acl_lists.replaced(states, because=REPLACED)
