# SPDX-License-Identifier: Apache-2.0
"""Before any policy the demo's clients reach its servers; the documented commands say the same as our attempts."""

from conformance.fixtures import Commands, Expect, WorkerPods
from conformance.marks import smoke, verifies

BECAUSE = "no policy is in force, and then everything is allowed"


@smoke()
@verifies("DEMO-2")
def test_linux_client_reaches_windows_server(
    pods: WorkerPods, expect: Expect, command: Commands
) -> None:
    pod_pairs = pods.clients("linux").to(pods.servers("windows"))
    expect.reachable(pod_pairs.tcp(80), because=BECAUSE)
    command.nc_opens(pod_pairs.one_per_build().tcp(80), because=BECAUSE)


@smoke()
@verifies("DEMO-3")
def test_windows_client_reaches_linux_server(
    pods: WorkerPods, expect: Expect, command: Commands
) -> None:
    pod_pairs = pods.clients("windows").to(pods.servers("linux"))
    expect.reachable(pod_pairs.tcp(80), because=BECAUSE)
    command.web_request_shows(
        pod_pairs.one_per_build().tcp(80), "Welcome to nginx!", because=BECAUSE
    )


@verifies("DEMO-4")
def test_windows_client_reaches_windows_server(
    pods: WorkerPods, expect: Expect, command: Commands
) -> None:
    pod_pairs = pods.clients("windows").to(pods.servers("windows"))
    page = "<H1>Windows Container Web Server</H1>"
    expect.reachable(pod_pairs.tcp(80), because=BECAUSE)
    command.web_request_shows(pod_pairs.one_per_build().tcp(80), page, because=BECAUSE)
