"""Changes of a pod that matter to no policy leave its connections alone; before Calico v3.31 they can reset them."""

from functools import partial

from conformance.marks import manifest, verifies, windows_directions


@windows_directions()
@manifest("policy/resets/bystander.yaml")
@verifies("XPOL-16", part="{client_os} to {server_os}")
def test_a_stream_outlives_a_trifle(pods, policy, relabel, upheaval, scene):
    (bystander,) = pods.of("elsewhere/windows-client")
    apply = partial(policy.apply, into=bystander.namespace, bystander=bystander)
    apply(guest="nobody")
    let_in, opens = partial(apply, guest="linux-client"), [(scene.beside[0], bystander.tcp(8080))]
    because = "no policy selects by this key"
    with upheaval.trifle(scene.stream, beside=scene.beside, then=let_in, opens=opens, because=because):
        relabel.trifle(*scene.windows)
