# SPDX-License-Identifier: Apache-2.0
"""An edit of a policy's rules alone is enforced at pods that run already."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, needs, verifies

LINUX = "linux server"
WINDOWS = "windows server"
ALLOWS = "the one rule allows everybody"
DENIES = "the same rule was edited and now denies everybody"
LABEL = "the one rule of the servers allows this label"
NO_LABEL = "the one rule of the servers does not allow this label"
NEW_LABEL = "the same rule was edited and now allows this label"
OLD_LABEL = "the same rule was edited and no longer allows this label"
REMOVED = "without a policy everything is allowed"


@needs(calico_policy=True)
@manifest("policy/calico/edited_in_place.yaml")
@verifies("XPOL-12", part="linux server")
@verifies("XPOL-12", part="windows server")
def test_an_edited_rule_is_enforced(pods: WorkerPods, policy: Policy, expect: Expect) -> None:
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
        Case(clients, not_selected, tcp=8080, open=True, because="no policy selects clients"),
    )
    expect.removed(policy, because=REMOVED)


@manifest("policy/kubernetes/ingress_by_selector.yaml")
@verifies("POL-1", part="kubernetes: edited rule, linux server")
@verifies("POL-1", part="kubernetes: edited rule, windows server")
def test_whom_an_edited_rule_admits_enters_and_whom_it_admitted_does_no_more(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    linux_clients = pods.clients("linux")
    windows_clients = pods.clients("windows")
    expect.base(
        policy.filled(server=linux, friend=linux_clients),
        policy.filled(server=windows, friend=windows_clients),
        Case(linux_clients, linux, tcp=8080, open=True, part=LINUX, because=LABEL),
        Case(windows_clients, linux, tcp=8080, open=False, part=LINUX, because=NO_LABEL),
        Case(windows_clients, windows, tcp=8080, open=True, part=WINDOWS, because=LABEL),
        Case(linux_clients, windows, tcp=8080, open=False, part=WINDOWS, because=NO_LABEL),
    )
    expect.change(
        policy.filled(server=linux, friend=windows_clients),
        policy.filled(server=windows, friend=linux_clients),
        Case(windows_clients, linux, tcp=8080, open=True, part=LINUX, because=NEW_LABEL),
        Case(linux_clients, linux, tcp=8080, open=False, part=LINUX, because=OLD_LABEL),
        Case(linux_clients, windows, tcp=8080, open=True, part=WINDOWS, because=NEW_LABEL),
        Case(windows_clients, windows, tcp=8080, open=False, part=WINDOWS, because=OLD_LABEL),
    )
    expect.removed(policy, because=REMOVED)
