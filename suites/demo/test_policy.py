"""The demo's Calico policy lets linux-client reach windows-server, and nobody else; other servers stay open."""

from conformance.fixtures import Commands, Expect, Policy, WorkerPods
from conformance.marks import manifest, needs, verifies

POLICY = "policy/demo/allow-linux-client.yaml"
SAME = "policy/demo/allow-linux-client.kubernetes.yaml"

REMOVED = "without the policy everything is allowed"


@verifies("DEMO-5")
@manifest(POLICY)
def test_the_policy_is_accepted_and_takes_effect(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    friends = pods.clients("linux")
    strangers = pods.clients("windows")
    servers = pods.servers("windows")
    others = pods.servers("linux")
    opened = [*friends.to(servers).tcp(80), *strangers.to(others).tcp(80)]
    closed = strangers.to(servers).tcp(80)
    expect.change(
        policy.filled(), open=opened, closed=closed, because="only linux-client is allowed"
    )
    expect.removed(policy, because=REMOVED)


@verifies("DEMO-6")
@manifest(POLICY, otherwise=SAME)
@needs(calico_policy=True)
def test_linux_client_still_reaches_windows_server(
    pods: WorkerPods, policy: Policy, expect: Expect, command: Commands
) -> None:
    friends = pods.clients("linux")
    strangers = pods.clients("windows")
    servers = pods.servers("windows")
    others = pods.servers("linux")
    opened = [*friends.to(servers).tcp(80), *strangers.to(others).tcp(80)]
    because = "its label is the one that the policy allows, which shows only where the policy keeps others out"
    expect.change(
        policy.filled(), open=opened, witness=strangers.to(servers).tcp(80), because=because
    )
    command.nc_opens(friends.to(servers).one_per_build().tcp(80), because=because)
    expect.removed(policy, because=REMOVED)


@verifies("DEMO-7")
@manifest(POLICY, otherwise=SAME)
@needs(calico_policy=True)
def test_every_other_source_times_out_and_other_servers_stay_open(
    pods: WorkerPods, policy: Policy, expect: Expect, command: Commands
) -> None:
    friends = pods.clients("linux")
    servers = pods.servers("windows")
    windows = pods.clients("windows")
    strangers = windows + pods.servers("linux") + pods.nodes() + pods.elsewhere("linux")
    allowed = friends.to(servers).tcp(80)
    beside = strangers.to(friends).tcp(8080)
    opened = [*allowed, *beside, *windows.to(pods.servers("linux")).tcp(80)]
    because = "the policy allows the label linux-client in its own namespace, and selects windows-server only"
    expect.change(
        policy.filled(), open=opened, closed=strangers.to(servers).tcp(80), because=because
    )
    command.web_request_times_out(windows.to(servers).one_per_build().tcp(80), because=because)
    expect.removed(policy, because=REMOVED)
