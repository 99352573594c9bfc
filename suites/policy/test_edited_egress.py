"""Rules for egress that are edited in place are in force as they are now: their ports and actions."""

from conformance.fixtures import Expect, Policy, Sides, WorkerPods
from conformance.marks import manifest, needs, verifies


@needs(calico_policy=True)
@manifest("policy/over-time/edited_egress.yaml")
@verifies("XPOL-12", part="egress", provisional=True)
def test_who_leaves_is_let_where_a_rules_port_and_action_let_it_now(
    pods: WorkerPods, policy: Policy, sides: Sides, expect: Expect
) -> None:
    ways = (pods.clients("linux") + pods.clients("windows")).to(sides.servers)
    echo, page, beside = ways.tcp(8080), ways.tcp(80), ways.tcp(8081)
    first = policy.filled(server=sides.servers, port="8080", action="Allow")
    edited = policy.filled(server=sides.servers, port="80", action="Allow")
    denied = policy.filled(server=sides.servers, port="80", action="Deny")
    expect.change(first, open=[*echo, *beside], closed=page, because="the one rule lets clients leave for port 8080")
    expect.change(edited, open=[*page, *beside], closed=echo, because="its port is 80 now, and nothing else of it")
    expect.change(denied, open=beside, closed=[*page, *echo], because="it denies now what it allowed")
