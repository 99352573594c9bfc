# SPDX-License-Identifier: Apache-2.0
"""The probe agents follow their protocol exactly in this cluster's pods: otherwise none of their
results is valid."""

from conformance.fixtures import ProbeProtocol, WorkerPods
from conformance.marks import smoke


@smoke()
def test_agents_keep_to_their_protocol(pods: WorkerPods, probe_protocol: ProbeProtocol) -> None:
    first = [pods.client("linux"), pods.client("windows")]
    probe_protocol.holds(first, because="all verdicts depend on the output of these programs")
