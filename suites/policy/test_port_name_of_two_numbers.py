"""Two Linux pods may give one port's name different numbers: a rule with the name opens of each what it calls so."""

from conformance.fixtures import Expect, Policy, WorkerPods
from conformance.marks import about, either_policy_api, verifies


@about("tcp", "udp")
@verifies("POL-1", part="{policy}: ingress by a port's name of two numbers, linux servers", provisional=True)
@either_policy_api("ingress_by_a_name_of_two_ports")
def test_of_each_pod_the_port_is_open_that_it_calls_so(pods: WorkerPods, policy: Policy, expect: Expect) -> None:
    strangers, eights, eighties = pods.clients("windows"), pods.clients("linux"), pods.servers("linux")
    opened = [*strangers.to(eights).tcp(8080), *strangers.to(eighties).tcp(80)]
    closed = [*strangers.to(eighties).tcp(8080), *strangers.to(eights).udp(8080)]
    because = "clients call TCP 8080 web, servers TCP 80, and a rule's name means of each pod its own number"
    expect.change(policy.filled(), open=opened, closed=closed, because=because)
    expect.removed(policy, because="without a policy everything is allowed")
