# SPDX-License-Identifier: Apache-2.0
"""Restarting Felix can reset established connections of its node's Windows pods; their policies
stay in force.
"""

from conformance.fixtures import (
    Case,
    ConnectionsDuringChange,
    Expect,
    Felix,
    Policy,
    WorkerPods,
)
from conformance.marks import manifest, verifies

STREAMS = "the policy allows port 9000, which streams use, to everybody"
NOT_IN = "the policy allows only port 9000"
RESTARTED = "a new Felix sends all rules to HNS again, whatever the old Felix sent"


@manifest("policy/resets/restart.yaml")
@verifies("RST-3", part="linux to windows")
@verifies("RST-3", part="windows to linux")
@verifies("RST-3", part="windows to windows")
def test_a_stream_may_be_lost_and_then_comes_back(
    *,
    pods: WorkerPods,
    policy: Policy,
    felix: Felix,
    expect: Expect,
    connections: ConnectionsDuringChange,
    own_nodes: tuple[str, ...],
) -> None:
    client = pods.clients("linux").one_per_os()
    server = pods.servers("linux").one_per_os()
    clients = pods.clients("windows").at(*own_nodes)
    servers = pods.servers("windows").at(*own_nodes)
    streams = client.to(servers) + clients.to(server) + clients.beside(servers)
    (beside,) = client.to(server)
    selected = clients + servers + server
    cases = [
        Case(client, selected, tcp=8080, open=False, because=NOT_IN),
        Case(client, server, tcp=9000, open=True, because=STREAMS),
    ]
    connections.begin(streams, beside=beside)
    connections.under(policy.filled(selected=selected), *cases)
    back = felix.restart_each(own_nodes)
    connections.survive_or_reconnect(
        streams, survives=beside, restarts=back, still=cases, because=RESTARTED
    )
    expect.removed(policy, because="without the policy everybody is let in again")
