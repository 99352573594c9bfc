# SPDX-License-Identifier: Apache-2.0
"""An egress rule that names a Service opens the path to its backends, as far as the rule's other
matches allow."""

from conformance.fixtures import Case, Expect, Policy, Services, WorkerPods
from conformance.marks import manifest, needs, verifies

pytestmark = [needs(calico_policy=True), manifest("policy/calico/egress_to_a_service.yaml")]

LINUX = "linux client"
WINDOWS = "windows client"
BACKEND = "the one rule allows TCP to the Service's only backend"
NO_BACKEND = "the one rule allows a Service, and this server is not a backend of this Service"
NOT_TCP = "the one rule allows UDP to the Service's backend"
NOT_SELECTED = "no policy selects these pods"
REMOVED = "without a policy everything is allowed"


@verifies("XPOL-7", part="backends, linux client")
@verifies("XPOL-7", part="backends, windows client")
def test_only_the_services_backends_are_reached(
    pods: WorkerPods, services: Services, policy: Policy, expect: Expect
) -> None:
    linux = pods.clients("linux")
    windows = pods.clients("windows")
    elsewhere = pods.elsewhere("linux") + pods.elsewhere("windows")
    backend = pods.server("linux")
    other = pods.server("windows")
    service = services.cluster_ip(backend).name
    expect.change(
        policy.filled(client=linux + windows, service=service, protocol="TCP"),
        Case(linux, backend, tcp=8080, open=True, part=LINUX, because=BACKEND),
        Case(linux, other, tcp=8080, open=False, part=LINUX, because=NO_BACKEND),
        Case(windows, backend, tcp=8080, open=True, part=WINDOWS, because=BACKEND),
        Case(windows, other, tcp=8080, open=False, part=WINDOWS, because=NO_BACKEND),
        Case(elsewhere, other, tcp=8080, open=True, because=NOT_SELECTED),
    )
    expect.removed(policy, because=REMOVED)


@verifies("XPOL-7", part="protocol, linux client")
@verifies("XPOL-7", part="protocol, windows client")
def test_the_rules_protocol_counts_too(
    pods: WorkerPods, services: Services, policy: Policy, expect: Expect
) -> None:
    linux = pods.clients("linux")
    windows = pods.clients("windows")
    elsewhere = pods.elsewhere("linux") + pods.elsewhere("windows")
    backend = pods.server("linux")
    service = services.cluster_ip(backend).name
    expect.change(
        policy.filled(client=linux + windows, service=service, protocol="UDP"),
        Case(linux, backend, tcp=8080, open=False, part=LINUX, because=NOT_TCP),
        Case(windows, backend, tcp=8080, open=False, part=WINDOWS, because=NOT_TCP),
        Case(elsewhere, backend, tcp=8080, open=True, because=NOT_SELECTED),
    )
    expect.removed(policy, because=REMOVED)
