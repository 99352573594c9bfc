# SPDX-License-Identifier: Apache-2.0
"""Rules that are edited in place are in force with their new ports, for ingress and egress.

Servers do not listen on the ports to which pods connect, so that a change affects both directions;
at the end the action of an egress rule is edited, too. The policy selects clients and servers, so
that several pods of a node must all lose the old rules.
"""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, needs, verifies

PORT = "port"
EGRESS = "egress"
NAMED = "the rule allows this port"
UNNAMED = "the rule does not allow this port"
NOW = "the rule now allows this port, and nothing else in the rule was edited"
NO_MORE = "the rule no longer allows this port"
DENIED = "the egress rule that allowed this port now denies it"


@needs(calico_policy=True)
@manifest("policy/over-time/edited_ports.yaml")
@verifies("XPOL-12", part=PORT, provisional=True)
@verifies("XPOL-12", part=EGRESS, provisional=True)
def test_who_enters_and_who_leaves_is_let_by_the_ports_that_rules_name_now(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    servers = pods.servers("linux") + pods.servers("windows")
    peers = pods.clients("linux") + pods.clients("windows") + servers
    expect.base(
        policy.filled(server=servers, entry="8083", port="8080", action="Allow"),
        Case(peers, servers, tcp=8083, udp=8083, open=True, part=PORT, at="target", because=NAMED),
        Case(
            peers, servers, tcp=8084, udp=8084, open=False, part=PORT, at="target", because=UNNAMED
        ),
        Case(peers, servers, tcp=8080, open=True, part=EGRESS, at="source", because=NAMED),
        Case(peers, servers, tcp=80, open=False, part=EGRESS, at="source", because=UNNAMED),
    )
    expect.change(
        policy.filled(server=servers, entry="8084", port="80", action="Allow"),
        Case(peers, servers, tcp=8084, udp=8084, open=True, part=PORT, at="target", because=NOW),
        Case(
            peers, servers, tcp=8083, udp=8083, open=False, part=PORT, at="target", because=NO_MORE
        ),
        Case(peers, servers, tcp=80, open=True, part=EGRESS, at="source", because=NOW),
        Case(peers, servers, tcp=8080, open=False, part=EGRESS, at="source", because=NO_MORE),
    )
    expect.change(
        policy.filled(server=servers, entry="8084", port="80", action="Deny"),
        Case(peers, servers, tcp=8084, udp=8084, open=True, part=EGRESS, at="source", because=NOW),
        Case(peers, servers, tcp=80, open=False, part=EGRESS, at="source", because=DENIED),
        Case(peers, servers, tcp=8080, open=False, part=EGRESS, at="source", because=NO_MORE),
    )
