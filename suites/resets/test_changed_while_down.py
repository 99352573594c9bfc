# SPDX-License-Identifier: Apache-2.0
"""A policy that changes while a node has no Felix is in force there once Felix is ready again."""

from conformance.fixtures import OS, Case, Expect, Felix, Policy, WorkerPods
from conformance.marks import each_os, manifest, other, verifies

pytestmark = [manifest("policy/kubernetes/ingress_by_selector.yaml")]

ALLOWED = "the one rule lets this client in, and Felix is running while the rule changes"
NOT_ALLOWED = (
    "the one rule does not let these clients in, and Felix is running while the rule changes"
)
CHANGED = (
    "Felix is ready only after it has programmed every policy, including changes while it was down"
)
NOT_SELECTED = "no policy selects servers of the other system"


@each_os("os")
@verifies("XOP-3", part="{os} nodes", alone_on="{os}")
def test_the_new_friend_enters_and_the_former_one_no_more(
    *,
    pods: WorkerPods,
    policy: Policy,
    expect: Expect,
    felix: Felix,
    own_nodes: tuple[str, ...],
    os: OS,
) -> None:
    servers = pods.servers(os).at(*own_nodes)
    not_selected = pods.server(other(os))
    linux = pods.clients("linux")
    windows = pods.clients("windows")
    former = policy.filled(server=servers, friend=linux)
    new = policy.filled(server=servers, friend=windows)
    expect.under(
        new,
        Case(windows, servers, tcp=8080, open=True, because=ALLOWED),
        Case(linux, servers, tcp=8080, open=False, because=NOT_ALLOWED),
        Case(linux + windows, not_selected, tcp=8080, open=True, because=NOT_SELECTED),
    )
    before = [
        Case(linux, servers, tcp=8080, open=True, because=ALLOWED),
        Case(windows, servers, tcp=8080, open=False, because=NOT_ALLOWED),
        Case(linux + windows, not_selected, tcp=8080, open=True, because=NOT_SELECTED),
    ]
    expect.under(former, *before)
    felix.restart_around(own_nodes, new.apply, undone=lambda: expect.under(former, *before))
    expect.matrix(
        Case(windows, servers, tcp=8080, open=True, because=CHANGED),
        Case(linux, servers, tcp=8080, open=False, because=CHANGED),
        Case(linux + windows, not_selected, tcp=8080, open=True, because=NOT_SELECTED),
    )
