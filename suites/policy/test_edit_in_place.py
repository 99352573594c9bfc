"""Editing the rules of a policy, and nothing else of it, is enforced at pods that run already."""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import each_os, manifest, needs, other, verifies

pytestmark = [needs(calico_policy=True), manifest("policy/calico/edited_in_place.yaml")]


@each_os("server_os")
@verifies("XPOL-12", part="{server_os} server")
def test_an_edited_rule_is_enforced(pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers, bystanders = pods.servers(server_os), pods.servers(other(server_os))
    ways, beside = clients.to(servers).tcp(8080), clients.to(bystanders).tcp(8080)
    expect.change(policy.filled(server=servers, action="Allow"), open=ways, because="the one rule allows everybody")
    edited = policy.filled(server=servers, action="Deny")
    expect.change(edited, open=beside, closed=ways, because="the same rule was edited and denies everybody now")
    expect.removed(policy, because="without a policy everything is allowed")
