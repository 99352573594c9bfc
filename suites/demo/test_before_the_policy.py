"""Before any policy the demo's clients reach its servers; the documented commands say the same as our attempts."""

from conformance.marks import smoke, verifies

BECAUSE = "no policy is in force, and then everything is allowed"


@smoke()
@verifies("DEMO-2")
def test_linux_client_reaches_windows_server(pods, expect, command):
    client, server = pods.of("linux-client", "windows-server")
    expect.reachable(client, server.tcp(80), because=BECAUSE)
    command.nc_opens(client, server.tcp(80), because=BECAUSE)


@smoke()
@verifies("DEMO-3")
def test_windows_client_reaches_linux_server(pods, expect, command):
    client, server = pods.of("windows-client", "linux-server")
    expect.reachable(client, server.tcp(80), because=BECAUSE)
    command.web_request_shows(client, server.tcp(80), "Welcome to nginx!", because=BECAUSE)


@verifies("DEMO-4")
def test_windows_client_reaches_windows_server(pods, expect, command):
    client, server = pods.of("windows-client", "windows-server")
    expect.reachable(client, server.tcp(80), because=BECAUSE)
    command.web_request_shows(client, server.tcp(80), "<H1>Windows Container Web Server</H1>", because=BECAUSE)
