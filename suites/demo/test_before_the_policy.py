# SPDX-License-Identifier: Apache-2.0
"""Before any policy the demo's clients reach its servers; the documented commands agree with our
attempts."""

from conformance.fixtures import Case, Commands, Expect, WorkerPods
from conformance.marks import smoke, verifies

BECAUSE = "no policy is in force, so everything is allowed"


@smoke()
@verifies("DEMO-2")
def test_linux_client_reaches_windows_server(
    pods: WorkerPods, expect: Expect, command: Commands
) -> None:
    clients = pods.clients("linux")
    servers = pods.servers("windows")
    expect.matrix(Case(clients, servers, tcp=80, open=True, because=BECAUSE))
    command.nc_opens(clients.to(servers).one_per_build().tcp(80), because=BECAUSE)


@smoke()
@verifies("DEMO-3")
def test_windows_client_reaches_linux_server(
    pods: WorkerPods, expect: Expect, command: Commands
) -> None:
    clients = pods.clients("windows")
    servers = pods.servers("linux")
    page = "Welcome to nginx!"
    expect.matrix(Case(clients, servers, tcp=80, open=True, because=BECAUSE))
    command.web_request_shows(clients.to(servers).one_per_build().tcp(80), page, because=BECAUSE)


@verifies("DEMO-4")
def test_windows_client_reaches_windows_server(
    pods: WorkerPods, expect: Expect, command: Commands
) -> None:
    clients = pods.clients("windows")
    servers = pods.servers("windows")
    page = "<H1>Windows Container Web Server</H1>"
    expect.matrix(Case(clients, servers, tcp=80, open=True, because=BECAUSE))
    command.web_request_shows(clients.to(servers).one_per_build().tcp(80), page, because=BECAUSE)
