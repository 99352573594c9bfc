# SPDX-License-Identifier: Apache-2.0
"""Windows pods can ping inside the cluster but not outside it. TCP works inside and outside it."""

from conformance.fixtures import ExternalPaths, WorkerPods
from conformance.marks import begins_early, verifies


@begins_early()
@verifies("XSVC-4")
def test_ping_of_a_windows_pod_ends_at_the_cluster(
    pods: WorkerPods, external: ExternalPaths
) -> None:
    windows = pods.clients("windows").one_per_build()
    linux = pods.client("linux")
    among_linux = pods.clients("linux").one_per_build().to(pods.servers("linux"))
    external.ping_passes(among_linux, because="nothing between the nodes drops ICMP")
    external.control(
        windows, linux, because="the target answers TCP from Windows, and ping from Linux"
    )
    within = windows.to([pods.server("linux"), *pods.servers("windows").one_per_build()])
    external.ping(within, because="within the cluster, ping of Windows pods is supported")
    because = "Windows' outbound NAT translates TCP and UDP only, so no reply returns"
    external.do_not_ping(windows, beside=linux, because=because)
