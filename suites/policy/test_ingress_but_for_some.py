# SPDX-License-Identifier: Apache-2.0
"""Addresses that a rule excludes from its block are denied. On Linux the rest of the block is
admitted.

Windows skips such rules (XPOL-1), so they admit no client there. A Windows server therefore
connects to other pods itself, which shows that its network works.
"""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import either_policy_api, verifies

REST = "the one rule allows the block of all addresses, and these are not among the exceptions"
EXCEPTED = "the one rule excludes these addresses, whether Windows enforces or skips the rule"
NOT_SELECTED = "no policy selects these servers"
REMOVED = "without a policy everything is allowed"


@verifies("POL-1", part="{policy}: ingress but for some, linux server")
@either_policy_api("ingress_but_for_some")
def test_all_but_the_excepted_addresses_enter_a_linux_pod(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    allowed = pods.clients("linux")
    excepted = pods.clients("windows")
    expect.change(
        policy.filled(server=linux, foe=excepted),
        Case(allowed, linux, tcp=8080, open=True, because=REST),
        Case(excepted, linux, tcp=8080, open=False, because=EXCEPTED),
        Case(excepted, windows, tcp=8080, open=True, because=NOT_SELECTED),
    )
    expect.removed(policy, because=REMOVED)


@verifies("POL-1", part="{policy}: ingress but for some, windows server")
@either_policy_api("ingress_but_for_some")
def test_excepted_addresses_do_not_enter_a_windows_pod(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    excepted = pods.clients("linux")
    expect.change(
        policy.filled(server=windows, foe=excepted),
        Case(excepted, windows, tcp=8080, open=False, because=EXCEPTED),
        Case(excepted + windows, linux, tcp=8080, open=True, because=NOT_SELECTED),
    )
    expect.removed(policy, because=REMOVED)
