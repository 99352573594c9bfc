"""Changes of a pod that matter to no policy leave its connections alone; before Calico v3.31 they can reset them."""

from conformance.marks import manifest, verifies, windows_directions


@windows_directions()
@manifest("policy/resets/bystander.yaml")
@verifies("XPOL-16", part="{client_os} to {server_os}")
def test_a_stream_outlives_a_trifle(pods, policy, relabel, upheaval, scene):
    (bystander,), guest = pods.of("elsewhere/windows-client"), scene.beside[0]
    policy.apply(into=bystander.namespace, bystander=bystander, guest="nobody")
    upheaval.begin(scene.stream, beside=scene.beside, opens=[(guest, bystander.tcp(8080))])
    relabel.trifle(*scene.windows)
    policy.apply(into=bystander.namespace, bystander=bystander, guest="linux-client")
    upheaval.loses_nothing(because="no policy selects by this key; the bystander's policy is another change, after it")
