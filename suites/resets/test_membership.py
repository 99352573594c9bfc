"""A change in what a policy's selector matches can reset established connections of the Windows pods it selects."""

from conformance.fixtures import ConnectionsDuringChange, Policy, Relabel, ResetTopology
from conformance.marks import manifest, verifies, windows_directions


@windows_directions()
@manifest("policy/resets/membership.yaml")
@verifies("RST-2", part="{client_os} to {server_os}")
def test_a_stream_may_be_lost_and_then_comes_back(
    policy: Policy, relabel: Relabel, connections: ConnectionsDuringChange, topology: ResetTopology
) -> None:
    policy.apply(**topology.ingress.selects)
    connections.begin(topology.streams, beside=topology.beside, opens=topology.ingress.routes)
    relabel.label_as_guest(topology.ingress.guest)
    connections.survive_or_reconnect(because="the policy is not touched; a pod that one of its rules selects comes")
