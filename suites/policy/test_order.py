# SPDX-License-Identifier: Apache-2.0
"""If two Calico policies select the same traffic, the policy with the lower order decides."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, needs, verifies

pytestmark = [needs(calico_policy=True)]

LINUX = "linux server"
WINDOWS = "windows server"
ALLOWED_FIRST = (
    "the policy of order 10 allows these clients; it is evaluated before the policy of order 20, "
    "which denies everybody"
)
DENIED_AFTER = (
    "the policy of order 10 does not apply to these clients, and the policy of order 20 denies "
    "everybody"
)
DENIED_FIRST = (
    "the policy of order 10 denies these clients; it is evaluated before the policy of order 20, "
    "which allows everybody"
)
ALLOWED_AFTER = (
    "the policy of order 10 does not apply to these clients, and the policy of order 20 allows "
    "everybody"
)
REMOVED = "without a policy everything is allowed"


@verifies("POL-1", part="calico: allow before deny, linux server")
@verifies("POL-1", part="calico: allow before deny, windows server")
@manifest("policy/calico/allow_before_deny.yaml")
def test_an_allow_of_lower_order_wins(pods: WorkerPods, policy: Policy, expect: Expect) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    linux_clients = pods.clients("linux")
    windows_clients = pods.clients("windows")
    expect.change(
        policy.filled(server=linux, friend=linux_clients),
        policy.filled(server=windows, friend=windows_clients),
        Case(linux_clients, linux, tcp=8080, open=True, part=LINUX, because=ALLOWED_FIRST),
        Case(windows_clients, linux, tcp=8080, open=False, part=LINUX, because=DENIED_AFTER),
        Case(windows_clients, windows, tcp=8080, open=True, part=WINDOWS, because=ALLOWED_FIRST),
        Case(linux_clients, windows, tcp=8080, open=False, part=WINDOWS, because=DENIED_AFTER),
    )
    expect.removed(policy, because=REMOVED)


@verifies("POL-1", part="calico: deny before allow, linux server")
@verifies("POL-1", part="calico: deny before allow, windows server")
@manifest("policy/calico/deny_before_allow.yaml")
def test_a_deny_of_lower_order_wins(pods: WorkerPods, policy: Policy, expect: Expect) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    linux_clients = pods.clients("linux")
    windows_clients = pods.clients("windows")
    expect.change(
        policy.filled(server=linux, friend=linux_clients),
        policy.filled(server=windows, friend=windows_clients),
        Case(linux_clients, linux, tcp=8080, open=False, part=LINUX, because=DENIED_FIRST),
        Case(windows_clients, linux, tcp=8080, open=True, part=LINUX, because=ALLOWED_AFTER),
        Case(windows_clients, windows, tcp=8080, open=False, part=WINDOWS, because=DENIED_FIRST),
        Case(linux_clients, windows, tcp=8080, open=True, part=WINDOWS, because=ALLOWED_AFTER),
    )
    expect.removed(policy, because=REMOVED)
