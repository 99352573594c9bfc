# SPDX-License-Identifier: Apache-2.0
"""The kubelet's readiness probes reach Windows pods: only then do the pods become ready."""

from conformance.fixtures import Expect, WebServer, WorkerPods
from conformance.marks import about, manifest, verifies

BECAUSE = (
    "the readiness probe comes from the kubelet of the pod's own node, and Windows admits such "
    "probes"
)


@verifies("XHOST-1", part="httpGet")
@manifest("calico-demo/windows.yaml")
def test_a_pod_with_an_http_probe_becomes_ready(pods: WorkerPods, expect: Expect) -> None:
    expect.started(pods.start("windows-server", because=BECAUSE), because=BECAUSE)


@about("tcp")
@verifies("XHOST-1", part="tcpSocket")
@manifest("services/win-webserver.yaml")
def test_pods_with_a_tcp_probe_become_ready(webserver: WebServer, expect: Expect) -> None:
    replicas, _ = webserver.start(because=BECAUSE)
    expect.started(replicas, because=BECAUSE)
