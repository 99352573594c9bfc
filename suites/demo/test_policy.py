# SPDX-License-Identifier: Apache-2.0
"""The demo's Calico policy lets linux-client reach windows-server, and no other client; other
servers stay open."""

from conformance.fixtures import Case, Commands, Expect, Policy, WorkerPods
from conformance.marks import manifest, needs, verifies

POLICY = "policy/demo/allow-linux-client.yaml"
SAME = "policy/demo/allow-linux-client.kubernetes.yaml"

ALLOWED = "the policy allows the label linux-client in its own namespace"
NOT_ALLOWED = "the policy allows the label linux-client only in its own namespace"
NOT_SELECTED = "the policy selects only windows-server"
IN_FORCE = "the policy does not allow these clients, which shows that it is in force"
REMOVED = "without the policy everything is allowed"


@verifies("DEMO-5")
@manifest(POLICY)
def test_the_policy_is_accepted_and_takes_effect(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    allowed = pods.clients("linux")
    others = pods.clients("windows")
    windows = pods.servers("windows")
    linux = pods.servers("linux")
    expect.change(
        policy.filled(),
        Case(allowed, windows, tcp=80, open=True, because=ALLOWED),
        Case(others, windows, tcp=80, open=False, because=NOT_ALLOWED),
        Case(others, linux, tcp=80, open=True, because=NOT_SELECTED),
    )
    expect.removed(policy, because=REMOVED)


@verifies("DEMO-6")
@manifest(POLICY, otherwise=SAME)
@needs(calico_policy=True)
def test_linux_client_still_reaches_windows_server(
    pods: WorkerPods, policy: Policy, expect: Expect, command: Commands
) -> None:
    allowed = pods.clients("linux")
    others = pods.clients("windows")
    windows = pods.servers("windows")
    linux = pods.servers("linux")
    expect.change(
        policy.filled(),
        Case(allowed, windows, tcp=80, open=True, because=ALLOWED),
        Case(others, windows, tcp=80, open=False, witness=True, because=IN_FORCE),
        Case(others, linux, tcp=80, open=True, because=NOT_SELECTED),
    )
    command.nc_opens(allowed.to(windows).one_per_build().tcp(80), because=ALLOWED)
    expect.removed(policy, because=REMOVED)


@verifies("DEMO-7")
@manifest(POLICY, otherwise=SAME)
@needs(calico_policy=True)
def test_every_other_source_times_out_and_other_servers_stay_open(
    pods: WorkerPods, policy: Policy, expect: Expect, command: Commands
) -> None:
    allowed = pods.clients("linux")
    windows_clients = pods.clients("windows")
    others = windows_clients + pods.servers("linux") + pods.nodes() + pods.elsewhere("linux")
    windows = pods.servers("windows")
    linux = pods.servers("linux")
    expect.change(
        policy.filled(),
        Case(allowed, windows, tcp=80, open=True, because=ALLOWED),
        Case(others, windows, tcp=80, open=False, because=NOT_ALLOWED),
        Case(others, allowed, tcp=8080, open=True, because=NOT_SELECTED),
        Case(windows_clients, linux, tcp=80, open=True, because=NOT_SELECTED),
    )
    command.web_request_times_out(
        windows_clients.to(windows).one_per_build().tcp(80), because=NOT_ALLOWED
    )
    expect.removed(policy, because=REMOVED)
