# SPDX-License-Identifier: Apache-2.0
"""The probe agents keep to their protocol in this cluster's pods, word for word: otherwise none of
their results counts."""

from conformance.fixtures import ProbeProtocol, WorkerPods
from conformance.marks import smoke


@smoke()
def test_agents_keep_to_their_protocol(pods: WorkerPods, probe_protocol: ProbeProtocol) -> None:
    first = [pods.client("linux"), pods.client("windows")]
    probe_protocol.holds(first, because="all verdicts rest on the output of these programs")
