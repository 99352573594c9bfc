# SPDX-License-Identifier: Apache-2.0
"""The suite's pods by role: their manifests, their containers, and the ports they serve."""

from dataclasses import dataclass

from conformance import product
from conformance.model.endpoint import OS

MANIFESTS = product.MANIFESTS

DEMO_PORT = 80
"""Port of the demo's servers: nginx on Linux, the demo page on Windows."""
ECHO_PORT = 8080
"""HTTP and UDP echo (docs/probe-protocol.md) of every pod that is not in a node's own network."""
STREAM_PORT = 9000
"""Port on which stream agents accept streams (docs/probe-protocol.md, section 8), if an agent was
started in the pod."""


@dataclass(frozen=True)
class Role:
    """A Deployment of the manifests; in hosts of Windows nodes a DaemonSet."""

    name: str
    os: OS
    manifest: str
    agent: str
    """The container in which probes are started."""
    main: str
    """Container for literal commands: the pod's main container in the demo."""
    host_network: bool = False
    """The pod is in its node's own network. On Windows this is a HostProcess pod, since no other
    pod can be."""


ROLES = {
    role.name: role
    for role in (
        Role("linux-client", "linux", "calico-demo/linux.yaml", agent="agent", main="client"),
        Role("linux-server", "linux", "calico-demo/linux.yaml", agent="agent", main="server"),
        Role(
            "windows-client", "windows", "calico-demo/windows.yaml", agent="client", main="client"
        ),
        Role(
            "windows-server", "windows", "calico-demo/windows.yaml", agent="server", main="server"
        ),
        Role("linux-seat", "linux", "worlds/linux.yaml", agent="agent", main="agent"),
        Role("windows-seat", "windows", "worlds/windows.yaml", agent="agent", main="agent"),
        Role(
            "linux-node",
            "linux",
            "nodes/linux-node.yaml",
            agent="agent",
            main="agent",
            host_network=True,
        ),
        Role(
            "windows-host",
            "windows",
            "nodes/windows-host.yaml",
            agent="host",
            main="host",
            host_network=True,
        ),
    )
}
