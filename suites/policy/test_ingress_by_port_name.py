# SPDX-License-Identifier: Apache-2.0
"""A rule that names a port opens the Linux pod's port of that name; Windows skips such rules
(XPOL-4)."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import about, either_policy_api, verifies

NAMED = "the pods name TCP 8080 echo, and the one rule allows TCP to echo"
NOT_NAMED = "the pods name neither TCP 80 nor UDP 8080 echo"


@about("tcp", "udp")
@verifies("POL-1", part="{policy}: ingress by a port's name, linux server")
@either_policy_api("ingress_by_port_name")
def test_only_the_port_of_that_name_is_open(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers("linux")
    expect.change(
        policy.filled(server=servers),
        Case(clients, servers, tcp=8080, open=True, because=NAMED),
        Case(clients, servers, tcp=80, udp=8080, open=False, because=NOT_NAMED),
    )
    expect.removed(policy, because="without a policy everything is allowed")
