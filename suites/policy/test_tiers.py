"""Tiers decide in their order, and what one passes the next one decides, no more and no less of it."""

from conformance.fixtures import OS, Expect, Policy, Sides, WorkerPods
from conformance.marks import each_os, manifest, needs, other, verifies


@each_os("server_os")
@verifies("XPOL-6", part="deny before allow, {server_os} server")
@manifest("policy/calico/deny_in_a_first_tier.yaml")
def test_a_first_tier_denies_what_a_later_one_allows(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    servers = pods.servers(server_os)
    strangers = pods.servers(other(server_os))
    foes = pods.clients(server_os)
    friends = pods.clients(other(server_os))
    filled = policy.filled(server=servers, foe=foes, friend=friends)
    opened = [
        *friends.to(servers).tcp(8080),
        *foes.to(strangers).tcp(8080),
        *strangers.to(friends).tcp(8080),
    ]
    because = "the first tier denies the foes and passes the rest, of whom the default tier allows the friends"
    expect.change(
        filled, open=opened, closed=(foes + strangers).to(servers).tcp(8080), because=because
    )
    expect.removed(policy, because="without a policy everything is allowed")


@each_os("server_os")
@verifies("XPOL-6", part="Pass of one port, {server_os} server")
@manifest("policy/calico/pass_one_port.yaml")
def test_only_the_passed_port_reaches_the_next_tier(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    servers = pods.servers(server_os)
    bystanders = pods.servers(other(server_os))
    friends = pods.clients(server_os)
    strangers = pods.clients(other(server_os))
    opened = [*friends.to(servers).tcp(8080), *strangers.to(bystanders).tcp(8080)]
    closed = [*strangers.to(servers).tcp(8080), *(friends + strangers).to(servers).tcp(80)]
    because = "TCP 8080 is passed to a tier that allows TCP 80, and any port to the friends; TCP 80 is not passed"
    expect.change(
        policy.filled(server=servers, friend=friends), open=opened, closed=closed, because=because
    )
    expect.removed(policy, because="without a policy everything is allowed")


@verifies("XPOL-6", part="Pass in the default tier, windows server")
@manifest("policy/calico/pass_in_the_default_tier.yaml")
def test_what_the_default_tier_passes_is_blocked(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers("windows")
    ways = clients.to(servers).tcp(8080)
    beside = clients.to(pods.servers("linux")).tcp(8080)
    because = "on Windows, Pass in the last tier blocks, and nothing comes after it"
    expect.change(policy.filled(server=servers), open=beside, closed=ways, because=because)
    expect.removed(policy, because="without a policy everything is allowed")


@manifest("policy/over-time/edited_tier.yaml")
@needs(v3_api=True)
@verifies(
    "POL-1", part="calico: edited end of a tier", provisional=True, applies={"calico": ">=3.29"}
)
def test_what_no_rule_of_a_tier_matches_is_passed_or_denied_as_its_end_says_now(
    policy: Policy, sides: Sides, expect: Expect
) -> None:
    denies = policy.filled(friend=sides.friends, end="Deny")
    passes = policy.filled(friend=sides.friends, end="Pass")
    both = [*sides.opened, *sides.closed]
    expect.change(
        passes,
        open=both,
        because="the tier passes what its rule does not allow, and nothing denies it",
    )
    expect.change(
        denies, open=sides.opened, closed=sides.closed, because="the tier denies now what it passed"
    )
