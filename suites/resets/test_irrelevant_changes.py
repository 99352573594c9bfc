# SPDX-License-Identifier: Apache-2.0
"""Changes of a pod that concern no policy do not affect its connections; before Calico v3.31 they
can reset them."""

from conformance.fixtures import Case, ConnectionsDuringChange, Policy, Relabel, WorkerPods
from conformance.marks import manifest, verifies

STREAMS = "the policy selects only the bystanders"
NOBODY = "the bystanders' policy admits a label that no pod has"
IN = "the bystanders' policy was updated after the labels and now admits this client"
IRRELEVANT = "no policy selects by this label; the bystanders' policy was changed only afterwards"


@manifest("policy/resets/bystander.yaml")
@verifies("XPOL-16", part="linux to windows")
@verifies("XPOL-16", part="windows to linux")
@verifies("XPOL-16", part="windows to windows")
def test_a_stream_survives_an_irrelevant_label_change(
    pods: WorkerPods, policy: Policy, relabel: Relabel, connections: ConnectionsDuringChange
) -> None:
    client = pods.clients("linux").one_per_os()
    server = pods.servers("linux").one_per_os()
    clients = pods.clients("windows")
    servers = pods.servers("windows")
    bystanders = pods.elsewhere("windows")
    there = pods.namespace_elsewhere
    streams = client.to(servers) + clients.to(server) + clients.beside(servers)
    (beside,) = client.to(server)
    connections.begin(streams, beside=beside)
    connections.under(
        policy.filled(into=there, bystander=bystanders, home=pods.namespace, guest="nobody"),
        Case(client, bystanders, tcp=8080, open=False, because=NOBODY),
        Case(client, server, tcp=9000, open=True, because=STREAMS),
    )
    connections.quiet(because="from now on, the policy's ACL lists cannot be the reason for losses")
    relabel.add_irrelevant_label(*clients, *servers)
    policy.apply(into=there, bystander=bystanders, home=pods.namespace, guest="linux-client")
    connections.survive(
        streams,
        Case(client, bystanders, tcp=8080, open=True, because=IN),
        survives=beside,
        because=IRRELEVANT,
    )
