# SPDX-License-Identifier: Apache-2.0
"""An ingress rule with single addresses admits those addresses and no other, not even pods of the
same node and block."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import either_policy_api, verifies

LINUX = "linux server"
WINDOWS = "windows server"
ADDRESS = (
    "the one rule of the servers allows these clients' addresses, and pods keep their addresses"
)
NO_ADDRESS = "no rule of the servers contains an address of these clients"


@either_policy_api("ingress_by_address")
@verifies("POL-1", part="{policy}: ingress by address, linux server")
@verifies("POL-1", part="{policy}: ingress by address, windows server")
def test_only_the_allowed_address_enters(pods: WorkerPods, policy: Policy, expect: Expect) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    linux_clients = pods.clients("linux")
    windows_clients = pods.clients("windows")
    linux_others = windows_clients + pods.elsewhere("linux")
    windows_others = linux_clients + pods.elsewhere("windows")
    elsewhere = pods.elsewhere("linux") + pods.elsewhere("windows")
    expect.change(
        policy.filled(server=linux, friend=linux_clients),
        policy.filled(server=windows, friend=windows_clients),
        Case(linux_clients, linux, tcp=8080, open=True, part=LINUX, because=ADDRESS),
        Case(linux_others, linux, tcp=8080, open=False, part=LINUX, because=NO_ADDRESS),
        Case(windows_clients, windows, tcp=8080, open=True, part=WINDOWS, because=ADDRESS),
        Case(windows_others, windows, tcp=8080, open=False, part=WINDOWS, because=NO_ADDRESS),
        Case(elsewhere, linux_clients, tcp=8080, open=True, because="no policy selects clients"),
    )
    expect.removed(policy, because="without a policy everything is allowed")
