# SPDX-License-Identifier: Apache-2.0
"""Changes in the second tier that applies to a pod are enforced like changes in its first tier."""

from conformance.fixtures import Case, Expect, Policy, Relabel, WorkerPods
from conformance.marks import manifest, verifies

LINUX = "linux server"
WINDOWS = "windows server"
ALLOWS = "the first tier passes everybody, and the second tier allows everybody"
DENIES = "the rule of the second tier was edited and now denies everybody"
NO_GUESTS = "the second tier allows guests, and nobody has the guests' label yet"
GUESTS = "these pods now have the guests' label, so the second tier's selector matches them"
NOT_SELECTED = "no policy selects clients"


@verifies("XPOL-13", part="edited rule, linux server")
@verifies("XPOL-13", part="edited rule, windows server")
@manifest("policy/calico/edited_behind_a_tier.yaml")
def test_an_edit_behind_a_tier_is_enforced(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    not_selected = pods.clients("linux").one_per_os() + pods.clients("windows").one_per_os()
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    expect.change(
        policy.filled(server=linux + windows, action="Allow"),
        Case(clients, linux, tcp=8080, open=True, part=LINUX, because=ALLOWS),
        Case(clients, windows, tcp=8080, open=True, part=WINDOWS, because=ALLOWS),
    )
    expect.change(
        policy.filled(server=linux + windows, action="Deny"),
        Case(clients, linux, tcp=8080, open=False, part=LINUX, because=DENIES),
        Case(clients, windows, tcp=8080, open=False, part=WINDOWS, because=DENIES),
        Case(clients, not_selected, tcp=8080, open=True, because=NOT_SELECTED),
    )
    expect.removed(policy, because="without a policy everything is allowed")


@verifies("XPOL-13", part="new member, linux server")
@verifies("XPOL-13", part="new member, windows server")
@manifest("policy/calico/guests_behind_a_tier.yaml")
def test_a_new_member_of_a_selector_behind_a_tier_gets_through(
    pods: WorkerPods, policy: Policy, relabel: Relabel, expect: Expect
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    not_selected = pods.clients("linux").one_per_os() + pods.clients("windows").one_per_os()
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    expect.change(
        policy.filled(server=linux + windows),
        Case(clients, linux, tcp=8080, open=False, part=LINUX, because=NO_GUESTS),
        Case(clients, windows, tcp=8080, open=False, part=WINDOWS, because=NO_GUESTS),
        Case(clients, not_selected, tcp=8080, open=True, because=NOT_SELECTED),
    )
    relabel.label_as_guest(*clients)
    expect.matrix(
        Case(clients, linux, tcp=8080, open=True, part=LINUX, because=GUESTS),
        Case(clients, windows, tcp=8080, open=True, part=WINDOWS, because=GUESTS),
    )
