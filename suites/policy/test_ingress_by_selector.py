"""An ingress rule with a pod selector admits the pods that it selects, and nobody else."""

from conformance.marks import directions, either_policy_api, verifies

pytestmark = [verifies("POL-1", part="{policy}: ingress by selector, {client_os} to {server_os}")]


@directions()
@either_policy_api("ingress_by_selector")
def test_only_the_selected_client_enters(pods, policy, expect, client_os, server_os):
    (server, bystander), (friend, stranger) = pods.servers(server_os), pods.clients(client_os)
    expect.change(
        policy.filled(server=server, friend=friend),
        open=[(friend, server.tcp(8080)), (stranger, bystander.tcp(8080))],
        closed=[(stranger, server.tcp(8080))],
        because="the one rule allows the label of the friend",
    )
    expect.removed(policy, because="without a policy everything is allowed")
