# SPDX-License-Identifier: Apache-2.0
"""A change in what a policy's selector matches can reset established connections of the Windows
pods it selects.
"""

from conformance.fixtures import Case, ConnectionsDuringChange, Policy, Relabel, WorkerPods
from conformance.marks import manifest, verifies

STREAMS = "the policy allows port 9000, which streams use, to everybody"
NOT_IN = (
    "the policy allows port 9000 to everybody and other ports to guests, and no pod is a guest yet"
)
IN = "the policy allows all ports to guests, and this client now has the guests' label"
NOT_OUT = (
    "the policy lets its pods call port 9000 and other ports of guests, and no pod is a guest yet"
)
OUT = "the policy lets its pods call all ports of guests, and this server now has the guests' label"
COMES = "the policy is not changed; only a pod that one of its rules selects is added"


@manifest("policy/resets/membership-ingress.yaml")
@verifies("RST-2", part="ingress, linux to windows")
@verifies("RST-2", part="ingress, windows to linux")
@verifies("RST-2", part="ingress, windows to windows")
def test_a_stream_may_be_lost_when_an_ingress_rule_selects_another_pod(
    pods: WorkerPods, policy: Policy, relabel: Relabel, connections: ConnectionsDuringChange
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
        policy.filled(selected=selected),
        Case(client, selected, tcp=8080, open=False, because=NOT_IN),
        Case(client, server, tcp=9000, open=True, because=STREAMS),
    )
    relabel.label_as_guest(*client)
    connections.survive_or_reconnect(
        streams,
        Case(client, selected, tcp=8080, open=True, because=IN),
        survives=beside,
        because=COMES,
    )


@manifest("policy/resets/membership-egress.yaml")
@verifies("RST-2", part="egress, linux to windows")
@verifies("RST-2", part="egress, windows to linux")
@verifies("RST-2", part="egress, windows to windows")
def test_a_stream_may_be_lost_when_an_egress_rule_selects_another_pod(
    pods: WorkerPods, policy: Policy, relabel: Relabel, connections: ConnectionsDuringChange
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
        policy.filled(selected=selected),
        Case(selected, server, tcp=8080, open=False, because=NOT_OUT),
        Case(selected, server, tcp=9000, open=True, because=STREAMS),
    )
    relabel.label_as_guest(*server)
    connections.survive_or_reconnect(
        streams,
        Case(selected, server, tcp=8080, open=True, because=OUT),
        survives=beside,
        because=COMES,
    )
