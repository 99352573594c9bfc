"""Rules for egress that are edited in place are in force as they are now: ports and actions (XPOL-12), and networks."""

from conformance.fixtures import Expect, Policy, Sides, WorkerPods
from conformance.marks import manifest, needs, verifies

pytestmark = [needs(calico_policy=True)]


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


@manifest("policy/over-time/edited_egress.yaml")
@verifies("POL-1", part="calico: edited networks of an egress rule", provisional=True)
def test_who_leaves_is_let_to_a_rules_networks_now_and_to_those_it_had_no_more(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    linux, windows = pods.servers("linux"), pods.servers("windows")
    clients = pods.clients("linux") + pods.clients("windows")
    first, second = clients.to(linux).tcp(8080), clients.to(windows).tcp(8080)
    before = policy.filled(server=linux, port="8080", action="Allow")
    after = policy.filled(server=windows, port="8080", action="Allow")
    expect.change(before, open=first, closed=second, because="the rule names the Linux servers' addresses")
    expect.change(after, open=second, closed=first, because="it names the Windows servers' now")
