"""Addresses that a rule leaves out of its block do not enter.

On Linux the rest of the block does.  On Windows such rules are skipped (XPOL-1), and then nobody enters by them: that
the server has a network at all is shown by what it reaches itself.
"""

from conformance.fixtures import Expect, Policy, WorkerPods
from conformance.marks import either_policy_api, verifies

REMOVED = "without a policy everything is allowed"


@verifies("POL-1", part="{policy}: ingress but for some, linux server")
@either_policy_api("ingress_but_for_some")
def test_all_but_the_excepted_addresses_enter_a_linux_pod(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    servers = pods.servers("linux")
    friends = pods.clients("linux")
    strangers = pods.clients("windows")
    opened = [*friends.to(servers).tcp(8080), *strangers.to(pods.servers("windows")).tcp(8080)]
    because = "the one rule allows the block of all addresses but these clients'"
    filled = policy.filled(server=servers, foe=strangers)
    closed = strangers.to(servers).tcp(8080)
    expect.change(filled, open=opened, closed=closed, because=because)
    expect.removed(policy, because=REMOVED)


@verifies("POL-1", part="{policy}: ingress but for some, windows server")
@either_policy_api("ingress_but_for_some")
def test_excepted_addresses_do_not_enter_a_windows_pod(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    servers = pods.servers("windows")
    strangers = pods.clients("linux")
    opened = (strangers + servers).to(pods.servers("linux")).tcp(8080)
    because = "the one rule leaves these clients out, whether Windows enforces it or skips it"
    filled = policy.filled(server=servers, foe=strangers)
    closed = strangers.to(servers).tcp(8080)
    expect.change(filled, open=opened, closed=closed, because=because)
    expect.removed(policy, because=REMOVED)
