# SPDX-License-Identifier: Apache-2.0
"""Tiers decide in their order, and the next tier decides about exactly the passed traffic."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, needs, verifies

LINUX = "linux server"
WINDOWS = "windows server"
PASSED_AND_ALLOWED = "the first tier passes these clients, and the default tier allows them"
PASSED_AND_NOT_ALLOWED = (
    "the first tier passes these pods, and the default tier does not allow them"
)
DENIED = "the first tier denies these clients, whatever the default tier allows"
PORT_AND_CLIENT = "the first tier passes TCP 8080 to a tier that allows these clients any port"
PORT_ALONE = "the first tier passes TCP 8080 to a tier that allows other clients only TCP 80"
NOT_THE_PORT = "the first tier does not pass TCP 80, which the next tier allows"
NOTHING_AFTER = "on Windows, Pass in the last tier denies, since no tier follows"
NOT_SELECTED = "no policy selects these pods"
TIERS_RULE = "a rule of the tier allows this client"
PASSES = "the tier passes traffic that its rule does not allow, and nothing denies this traffic"
DENIES = "the tier now denies traffic that its rule does not allow"
REMOVED = "without a policy everything is allowed"


@verifies("XPOL-6", part="deny before allow, linux server")
@verifies("XPOL-6", part="deny before allow, windows server")
@manifest("policy/calico/deny_in_a_first_tier.yaml")
def test_a_first_tier_denies_what_a_later_one_allows(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    linux_clients = pods.clients("linux")
    windows_clients = pods.clients("windows")
    expect.change(
        policy.filled(server=linux, foe=linux_clients, friend=windows_clients),
        policy.filled(server=windows, foe=windows_clients, friend=linux_clients),
        Case(windows_clients, linux, tcp=8080, open=True, part=LINUX, because=PASSED_AND_ALLOWED),
        Case(linux_clients, linux, tcp=8080, open=False, part=LINUX, because=DENIED),
        Case(windows, linux, tcp=8080, open=False, part=LINUX, because=PASSED_AND_NOT_ALLOWED),
        Case(linux_clients, windows, tcp=8080, open=True, part=WINDOWS, because=PASSED_AND_ALLOWED),
        Case(windows_clients, windows, tcp=8080, open=False, part=WINDOWS, because=DENIED),
        Case(linux, windows, tcp=8080, open=False, part=WINDOWS, because=PASSED_AND_NOT_ALLOWED),
        Case(linux + windows, linux_clients, tcp=8080, open=True, because=NOT_SELECTED),
    )
    expect.removed(policy, because=REMOVED)


@verifies("XPOL-6", part="Pass of one port, linux server")
@verifies("XPOL-6", part="Pass of one port, windows server")
@manifest("policy/calico/pass_one_port.yaml")
def test_only_the_passed_port_reaches_the_next_tier(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    linux_clients = pods.clients("linux")
    windows_clients = pods.clients("windows")
    clients = linux_clients + windows_clients
    expect.change(
        policy.filled(server=linux, friend=linux_clients),
        policy.filled(server=windows, friend=windows_clients),
        Case(linux_clients, linux, tcp=8080, open=True, part=LINUX, because=PORT_AND_CLIENT),
        Case(windows_clients, linux, tcp=8080, open=False, part=LINUX, because=PORT_ALONE),
        Case(clients, linux, tcp=80, open=False, part=LINUX, because=NOT_THE_PORT),
        Case(windows_clients, windows, tcp=8080, open=True, part=WINDOWS, because=PORT_AND_CLIENT),
        Case(linux_clients, windows, tcp=8080, open=False, part=WINDOWS, because=PORT_ALONE),
        Case(clients, windows, tcp=80, open=False, part=WINDOWS, because=NOT_THE_PORT),
    )
    expect.removed(policy, because=REMOVED)


@verifies("XPOL-6", part="Pass in the default tier, windows server")
@manifest("policy/calico/pass_in_the_default_tier.yaml")
def test_what_the_default_tier_passes_is_blocked(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    expect.change(
        policy.filled(server=windows),
        Case(clients, windows, tcp=8080, open=False, because=NOTHING_AFTER),
        Case(clients, linux, tcp=8080, open=True, because=NOT_SELECTED),
    )
    expect.removed(policy, because=REMOVED)


@manifest("policy/over-time/edited_tier.yaml")
@needs(v3_api=True)
@verifies(
    "POL-1", part="calico: edited end of a tier", provisional=True, applies={"calico": ">=3.29"}
)
def test_what_no_rule_of_a_tier_matches_is_passed_or_denied_as_its_end_says_now(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    client = pods.clients("linux").one_per_os()
    others = pods.clients("windows")
    servers = pods.servers("linux") + pods.servers("windows")
    expect.change(
        policy.filled(friend=client, end="Pass"),
        Case(client, servers, tcp=8080, udp=8080, open=True, because=TIERS_RULE),
        Case(others, servers, tcp=8080, udp=8080, open=True, because=PASSES),
        Case(others, client, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
    )
    expect.change(
        policy.filled(friend=client, end="Deny"),
        Case(client, servers, tcp=8080, udp=8080, open=True, because=TIERS_RULE),
        Case(others, servers, tcp=8080, udp=8080, open=False, because=DENIES),
        Case(others, client, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
    )
