"""Changes of a pod that matter to no policy leave its connections alone; before Calico v3.31 they can reset them."""

from conformance.fixtures import ConnectionsDuringChange, Policy, Relabel, ResetTopology, WorkerPods
from conformance.marks import manifest, verifies, windows_directions


@windows_directions()
@manifest("policy/resets/bystander.yaml")
@verifies("XPOL-16", part="{client_os} to {server_os}")
def test_a_stream_survives_an_irrelevant_label_change(
    pods: WorkerPods, policy: Policy, relabel: Relabel, connections: ConnectionsDuringChange, topology: ResetTopology
) -> None:
    bystanders = pods.elsewhere("windows")
    elsewhere = bystanders.first.namespace
    policy.apply(into=elsewhere, bystander=bystanders, guest="nobody")
    connections.begin(topology.streams, beside=topology.beside, opens=topology.ingress.to(bystanders))
    relabel.add_irrelevant_label(*topology.windows)
    policy.apply(into=elsewhere, bystander=bystanders, guest="linux-client")
    connections.survive(because="no policy selects by this key; the bystander's policy is another change, after it")
