# SPDX-License-Identifier: Apache-2.0
"""Ingress rules with a protocol and a port open that port of that protocol to every client, and
nothing else."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import about, either_policy_api, verifies

LINUX = "linux server"
WINDOWS = "windows server"
NAMED = "the rules allow TCP 80 and UDP 8080 from anywhere"
NOT_NAMED = "TCP 8080 has the protocol of one rule and the port of the other rule"


@about("tcp", "udp")
@either_policy_api("ingress_by_port")
@verifies("POL-1", part="{policy}: ingress by port, linux server")
@verifies("POL-1", part="{policy}: ingress by port, windows server")
def test_only_the_allowed_port_is_open(pods: WorkerPods, policy: Policy, expect: Expect) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    expect.change(
        policy.filled(server=linux + windows),
        Case(clients, linux, tcp=80, udp=8080, open=True, part=LINUX, because=NAMED),
        Case(clients, linux, tcp=8080, open=False, part=LINUX, because=NOT_NAMED),
        Case(clients, windows, tcp=80, udp=8080, open=True, part=WINDOWS, because=NAMED),
        Case(clients, windows, tcp=8080, open=False, part=WINDOWS, because=NOT_NAMED),
    )
    expect.removed(policy, because="without a policy everything is allowed")
