# SPDX-License-Identifier: Apache-2.0
"""The demo's client and server pods start on the operating system for which they are made."""

import pytest

from conformance.fixtures import OS, Expect, WorkerPods
from conformance.marks import manifest, smoke, verifies

pytestmark = [verifies("DEMO-1"), smoke()]


@pytest.mark.parametrize(
    "os",
    [
        pytest.param("linux", marks=manifest("calico-demo/linux.yaml")),
        pytest.param("windows", marks=manifest("calico-demo/windows.yaml")),
    ],
)
def test_client_and_server_become_ready_on_their_own_system(
    pods: WorkerPods, expect: Expect, os: OS
) -> None:
    because = "the image and the node are available, so only the pod's network can still fail"
    expect.started(pods.start(f"{os}-client", f"{os}-server", because=because), because=because)
