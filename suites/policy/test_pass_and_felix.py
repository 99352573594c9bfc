# SPDX-License-Identifier: Apache-2.0
"""Valid policies do not make Felix exit: it programs the policies of every pod on its node."""

from conformance.fixtures import Case, EndingPolicy, Policy, WorkerPods
from conformance.marks import manifest, verifies

ALLOWED = "the first tier passes TCP 8080 to the next tier, which lets this client in"
NOT_ALLOWED = "the first tier passes TCP 8080 to the next tier, which lets no other client in"
BACK = "after those policies are deleted, Felix has no reason to exit and enforces other policies"


@manifest("policy/limits/pass_and_highest_port.yaml")
@verifies("XPOL-22")
def test_felix_outlives_a_pass_with_the_highest_port_of_the_next_tier(
    pods: WorkerPods, policy: Policy, ending_policy: EndingPolicy, own_node: str
) -> None:
    server = pods.servers("windows").at(own_node).first
    allowed = pods.clients("linux").one_per_os()
    others = pods.clients("windows")
    seat = pods.seat_of(server)
    ending_policy.outlived(
        server,
        policy,
        policy.filled(seat=seat, friend=allowed, highest=8080),
        policy.filled(seat=seat, friend=allowed, highest=8089),
        Case(allowed, server, tcp=8080, open=True, because=ALLOWED),
        Case(others, server, tcp=8080, open=False, because=NOT_ALLOWED),
        Case(others, allowed, tcp=8080, open=True, because="no policy selects this client"),
        back=BACK,
    )
