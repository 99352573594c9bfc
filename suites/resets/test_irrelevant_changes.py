# SPDX-License-Identifier: Apache-2.0
"""Changes of a pod that matter to no policy leave its connections alone; before Calico v3.31 they can reset them."""

from conformance.fixtures import ConnectionsDuringChange, Policy, Relabel, ResetTopology, WorkerPods
from conformance.marks import manifest, verifies, windows_directions

NOBODY = "the bystanders' policy lets nobody in"
BECAUSE = "no policy selects by this key; the bystander's policy is another change, after it"


@windows_directions()
@manifest("policy/resets/bystander.yaml")
@verifies("XPOL-16", part="{client_os} to {server_os}")
def test_a_stream_survives_an_irrelevant_label_change(
    pods: WorkerPods,
    policy: Policy,
    relabel: Relabel,
    connections: ConnectionsDuringChange,
    topology: ResetTopology,
) -> None:
    bystanders = pods.elsewhere("windows")
    streams = topology.streams
    beside = topology.beside
    into = bystanders.first.namespace
    pairs = topology.ingress.to(bystanders)
    nobody = policy.filled(into=into, bystander=bystanders, home=pods.namespace, guest="nobody")
    connections.begin(streams, beside=beside)
    connections.under(nobody, closed=pairs, because=NOBODY)
    relabel.add_irrelevant_label(*topology.windows)
    policy.apply(into=into, bystander=bystanders, home=pods.namespace, guest="linux-client")
    connections.survive(streams, survives=beside, opened=pairs, because=BECAUSE)
