# SPDX-License-Identifier: Apache-2.0
"""Calico's default deny also closes paths that clusters often need: port 53 by TCP and UDP, and
ping."""

from conformance.fixtures import Case, Expect, ExternalPaths, Policy, WorkerPods
from conformance.marks import about, manifest, needs, verifies

NO_EXCEPTION = "a policy without rules has no exceptions"


@about("tcp", "udp")
@needs(calico_policy=True)
@manifest("policy/calico/no_client_reaches_anybody.yaml")
@verifies("POL-1", part="calico: default deny egress, port 53 and ping", provisional=True)
def test_who_reaches_nobody_reaches_port_53_no_more_and_pings_nobody(
    pods: WorkerPods, policy: Policy, expect: Expect, external: ExternalPaths
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    pings = clients.to(linux).one_per_build()
    external.before(pings)
    expect.change(
        policy.filled(),
        Case(clients, linux, tcp=53, udp=53, open=False, because=NO_EXCEPTION),
        Case(windows, linux, tcp=53, udp=53, open=True, because="no policy selects servers"),
    )
    external.ping(pings, because=NO_EXCEPTION, want=False)
    expect.removed(policy, because="without a policy everything is allowed")
