# SPDX-License-Identifier: Apache-2.0
"""Updating a policy can reset established connections of the Windows pods that it selects."""

from conformance.fixtures import Case, ConnectionsDuringChange, Policy, WorkerPods
from conformance.marks import manifest, verifies

STREAMS = "the policy allows port 9000, which streams use, to everybody"
NOT_IN = "the policy allows port 9000 to everybody, and other ports to a label that no pod has"
IN = "the policy was updated and now allows all ports to this client's label"
NOT_OUT = "the policy lets its pods call port 9000, and other ports of a label that no pod has"
OUT = "the policy was updated and now lets its pods call all ports of this server's label"
UPDATED = (
    "the policy allows the streams before and after; only its rules about other pods are updated"
)


@manifest("policy/resets/ingress.yaml")
@verifies("RST-1", part="ingress, linux to windows")
@verifies("RST-1", part="ingress, windows to linux")
@verifies("RST-1", part="ingress, windows to windows")
def test_a_stream_may_be_lost_when_an_ingress_policy_is_updated(
    pods: WorkerPods, policy: Policy, connections: ConnectionsDuringChange
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
    policy.apply(selected=selected, guest="linux-client")
    connections.survive_or_reconnect(
        streams,
        Case(client, selected, tcp=8080, open=True, because=IN),
        survives=beside,
        because=UPDATED,
    )


@manifest("policy/resets/egress.yaml")
@verifies("RST-1", part="egress, linux to windows")
@verifies("RST-1", part="egress, windows to linux")
@verifies("RST-1", part="egress, windows to windows")
def test_a_stream_may_be_lost_when_an_egress_policy_is_updated(
    pods: WorkerPods, policy: Policy, connections: ConnectionsDuringChange
) -> None:
    client = pods.clients("linux").one_per_os()
    server = pods.servers("linux").one_per_os()
    clients = pods.clients("windows")
    servers = pods.servers("windows")
    streams = client.to(servers) + clients.to(server) + clients.beside(servers)
    (beside,) = client.to(server)
    selected = clients + servers + client
    connections.begin(streams, beside=beside)
    connections.under(
        policy.filled(selected=selected, guest="nobody"),
        Case(selected, server, tcp=8080, open=False, because=NOT_OUT),
        Case(selected, server, tcp=9000, open=True, because=STREAMS),
    )
    policy.apply(selected=selected, guest="linux-server")
    connections.survive_or_reconnect(
        streams,
        Case(selected, server, tcp=8080, open=True, because=OUT),
        survives=beside,
        because=UPDATED,
    )
