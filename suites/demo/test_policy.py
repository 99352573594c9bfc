"""The demo's Calico policy lets linux-client reach windows-server, and nobody else; other servers stay open."""

from conformance.marks import manifest, verifies

pytestmark = [manifest("policy/demo/allow-linux-client.yaml")]

OPEN = "no policy is in force yet"


@verifies("DEMO-5")
def test_the_policy_is_accepted_and_takes_effect(pods, policy, expect):
    friend, stranger, server, other_server = pods.of("linux-client", "windows-client", "windows-server", "linux-server")
    expect.control([friend, stranger], [server.tcp(80), other_server.tcp(80)], because=OPEN)
    policy.apply()
    beside = [friend, (stranger, other_server.tcp(80))]
    expect.blocked(stranger, server.tcp(80), beside=beside, because="only linux-client is allowed")


@verifies("DEMO-6")
def test_linux_client_still_reaches_windows_server(pods, policy, expect, command):
    friend, stranger, server, other_server = pods.of("linux-client", "windows-client", "windows-server", "linux-server")
    expect.control([friend, stranger], [server.tcp(80), other_server.tcp(80)], because=OPEN)
    policy.apply()
    because = "its label is the one that the policy allows"
    opened = [(friend, server.tcp(80)), (stranger, other_server.tcp(80))]
    expect.matrix(open=opened, closed=[(stranger, server.tcp(80))], because=because)
    command.nc_opens(friend, server.tcp(80), because=because)


@verifies("DEMO-7")
def test_every_other_source_times_out_and_other_servers_stay_open(pods, policy, expect, command):
    friend, server, other_server = pods.of("linux-client", "windows-server", "linux-server")
    strangers = pods.of("windows-client", "linux-server", "linux-node", "elsewhere/linux-client")
    expect.control(strangers, [server.tcp(80), friend.tcp(8080)], because=OPEN)
    policy.apply()
    opened = [(friend, server.tcp(80)), (strangers, friend.tcp(8080)), (strangers[0], other_server.tcp(80))]
    because = "the policy allows the label linux-client in its own namespace, and selects windows-server only"
    expect.matrix(open=opened, closed=[(strangers, server.tcp(80))], because=because)
    command.web_request_times_out(strangers[0], server.tcp(80), because=because)
