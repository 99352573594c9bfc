# SPDX-License-Identifier: Apache-2.0
"""A rule's selector applies to pods that start after the policy: a pod with the selected label is
admitted, a pod without the label is not.

New pods start on nodes with older pods that the policy was observed to deny.
"""

from conformance.fixtures import Case, Expect, Newcomers, Policy, WorkerPods
from conformance.marks import manifest, verifies

LINUX = "linux server"
WINDOWS = "windows server"
NOBODY = "the one rule admits guests, and nobody has the guests' label yet"
LABEL = "the new pod came with the guests' label"
NO_LABEL = "the new pod came without the guests' label"
NOT_SELECTED = "no policy selects clients"


@manifest("policy/members/guests.yaml")
@verifies("POL-1", part="kubernetes: new member, linux server")
@verifies("POL-1", part="kubernetes: new member, windows server")
@verifies("XPOL-15", part="new member, linux server")
@verifies("XPOL-15", part="new member, windows server")
def test_a_new_pod_enters_if_it_comes_with_the_admitted_label(
    pods: WorkerPods, policy: Policy, newcomers: Newcomers, expect: Expect
) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    linux_clients = pods.clients("linux")
    windows_clients = pods.clients("windows")
    not_selected = linux_clients.one_per_os() + windows_clients.one_per_os()
    expect.change(
        policy.filled(server=linux + windows),
        Case(windows_clients, linux, tcp=8080, open=False, part=LINUX, because=NOBODY),
        Case(linux_clients, windows, tcp=8080, open=False, part=WINDOWS, because=NOBODY),
        Case(linux_clients, not_selected, tcp=8080, open=True, because=NOT_SELECTED),
        Case(windows_clients, not_selected, tcp=8080, open=True, because=NOT_SELECTED),
    )
    linux_guests, linux_others = newcomers.beside(linux_clients)
    windows_guests, windows_others = newcomers.beside(windows_clients)
    others = linux_others + windows_others
    new = linux_guests + windows_guests + others
    expect.controls(Case(new, not_selected, tcp=8080, open=True, because=NOT_SELECTED))
    expect.matrix(
        Case(windows_guests, linux, tcp=8080, open=True, part=LINUX, because=LABEL),
        Case(windows_others, linux, tcp=8080, open=False, part=LINUX, because=NO_LABEL),
        Case(linux_guests, windows, tcp=8080, open=True, part=WINDOWS, because=LABEL),
        Case(linux_others, windows, tcp=8080, open=False, part=WINDOWS, because=NO_LABEL),
        Case(others, not_selected, tcp=8080, open=True, because=NOT_SELECTED),
        new=new,
    )
    expect.removed(policy, because="without a policy everything is allowed")
