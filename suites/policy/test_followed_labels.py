# SPDX-License-Identifier: Apache-2.0
"""The selectors of a rule and of the policy itself follow labels that are added to pods and
namespaces and removed from them.

Labels are also removed and added again: Felix must apply them the second time, too.
"""

from conformance.fixtures import Case, Expect, Policy, Relabel, RelabelNamespaces, WorkerPods
from conformance.marks import manifest, verifies

LINUX = "linux server"
WINDOWS = "windows server"
GUESTS = "these pods or their namespace now have the guests' label"
NO_GUESTS = "no pod has the guests' label any longer"
AGAIN = "these pods or their namespace have the guests' label again"
SELECTED = "the servers have the label that the policy selects, and the policy admits nobody"
NOT_SELECTED = "the policy does not select these pods"
NO_MORE = "no pod has the selected label any longer"


@manifest("policy/members/guests.yaml")
@verifies("POL-1", part="kubernetes: followed labels, linux server")
@verifies("POL-1", part="kubernetes: followed labels, windows server")
@verifies("XPOL-15", part="followed labels, linux server")
@verifies("XPOL-15", part="followed labels, windows server")
def test_a_rule_follows_labels_that_go_and_come(
    pods: WorkerPods, policy: Policy, relabel_namespaces: RelabelNamespaces, expect: Expect
) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    here = pods.clients("linux") + pods.clients("windows")
    elsewhere = pods.elsewhere("linux") + pods.elsewhere("windows")
    linux_guests = pods.clients("linux") + pods.elsewhere("windows")
    windows_guests = pods.clients("windows") + pods.elsewhere("linux")
    not_selected = pods.clients("linux").one_per_os() + pods.clients("windows").one_per_os()
    relabel_namespaces.invite(*here, all_of=elsewhere)
    expect.change(
        policy.filled(server=linux + windows),
        Case(linux_guests, linux, tcp=8080, open=True, part=LINUX, because=GUESTS),
        Case(windows_guests, windows, tcp=8080, open=True, part=WINDOWS, because=GUESTS),
        Case(here + elsewhere, not_selected, tcp=8080, open=True, because=NOT_SELECTED),
    )
    relabel_namespaces.undo()
    expect.matrix(
        Case(linux_guests, linux, tcp=8080, open=False, part=LINUX, because=NO_GUESTS),
        Case(windows_guests, windows, tcp=8080, open=False, part=WINDOWS, because=NO_GUESTS),
        Case(here + elsewhere, not_selected, tcp=8080, open=True, because=NOT_SELECTED),
    )
    relabel_namespaces.invite(*here, all_of=elsewhere)
    expect.matrix(
        Case(linux_guests, linux, tcp=8080, open=True, part=LINUX, because=AGAIN),
        Case(windows_guests, windows, tcp=8080, open=True, part=WINDOWS, because=AGAIN),
    )


@manifest("policy/members/closed_guests.yaml")
@verifies("POL-1", part="kubernetes: followed labels of the selected, linux server")
@verifies("POL-1", part="kubernetes: followed labels of the selected, windows server")
def test_a_policy_is_about_a_pod_for_as_long_as_it_has_the_label(
    pods: WorkerPods, policy: Policy, relabel: Relabel, expect: Expect
) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    clients = pods.clients("linux") + pods.clients("windows")
    not_selected = pods.clients("linux").one_per_os() + pods.clients("windows").one_per_os()
    relabel.label_as_guest(*linux, *windows)
    expect.base(
        policy,
        Case(clients, linux, tcp=8080, open=False, part=LINUX, because=SELECTED),
        Case(clients, windows, tcp=8080, open=False, part=WINDOWS, because=SELECTED),
        Case(clients, not_selected, tcp=8080, open=True, because=NOT_SELECTED),
    )
    relabel.undo()
    expect.matrix(
        Case(clients, linux, tcp=8080, open=True, part=LINUX, because=NO_MORE),
        Case(clients, windows, tcp=8080, open=True, part=WINDOWS, because=NO_MORE),
        Case(clients, not_selected, tcp=8080, open=True, because=NOT_SELECTED),
    )
    relabel.label_as_guest(*linux, *windows)
    expect.matrix(
        Case(clients, linux, tcp=8080, open=False, part=LINUX, because=SELECTED),
        Case(clients, windows, tcp=8080, open=False, part=WINDOWS, because=SELECTED),
        Case(clients, not_selected, tcp=8080, open=True, because=NOT_SELECTED),
    )
