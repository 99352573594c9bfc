# SPDX-License-Identifier: Apache-2.0
"""Ingress rules with ranges of ports open every port of the ranges, also the last port, and no port
before or after.

Rules for service accounts apply to their pods.
"""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import about, manifest, needs, verifies

LINUX = "linux server"
WINDOWS = "windows server"
LAST = "80 is the last port of a range that is open to the account of all pods"
BETWEEN = "8080 lies directly between two ranges, and is open only to an account that no pod has"


@about("tcp")
@needs(calico_policy=True)
@manifest("policy/calico/ingress_by_range.yaml")
@verifies("POL-1", part="calico: ingress by range, linux server")
@verifies("POL-1", part="calico: ingress by range, windows server")
def test_only_the_ports_of_the_ranges_are_open(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    expect.change(
        policy.filled(server=linux + windows),
        Case(clients, linux, tcp=80, open=True, part=LINUX, because=LAST),
        Case(clients, linux, tcp=8080, open=False, part=LINUX, because=BETWEEN),
        Case(clients, windows, tcp=80, open=True, part=WINDOWS, because=LAST),
        Case(clients, windows, tcp=8080, open=False, part=WINDOWS, because=BETWEEN),
    )
    expect.removed(policy, because="without a policy everything is allowed")
