# SPDX-License-Identifier: Apache-2.0
"""Captures the packets of a failing path on the nodes of its ends, while the path is tried again.
The attempts and the packets are recorded as evidence; they decide nothing."""

import datetime
import functools
import ipaddress
import threading
from collections.abc import Callable, Sequence

from conformance.errors import first_line
from conformance.evidence import packets
from conformance.model.attempt import Attempt
from conformance.model.capture import Capture
from conformance.model.endpoint import Workload
from conformance.model.observation import Observation
from conformance.probe.host import Hosts

Observe = Callable[[Sequence[Attempt]], list[Observation]]
"""Makes attempts.  Raises ProbeBroken, EnvironmentBroken."""
BACKENDS = 3
"""The maximum number of pods behind one target whose packets are captured."""
VXLAN_PORT = 4789
"""The only UDP port for VXLAN that Windows supports (claim VXLAN-3)."""
PAUSE = 0.5
"""The pause, in seconds, between two attempts."""


class Retries:
    """Attempts on one path, again and again until the end."""

    def __init__(self, observe: Observe, path: Attempt) -> None:
        self._observe = observe
        self._path = path
        self.end = threading.Event()
        self.lines = [
            f"{path.label}, tried again after the failure; the nodes' clocks may differ from this "
            "one"
        ]
        """The results of the attempts so far, one line for each."""

    def run(self) -> None:
        """Until the end is requested: make an attempt, record the result, and pause."""
        while True:
            began = datetime.datetime.now(datetime.UTC)
            try:
                answer = self._observe([self._path])[0]
                result = f"{answer.verdict} after {answer.seconds * 1000:.0f} ms  {answer.detail}"
            # an error of the evidence must not replace the test's own failure
            except Exception as error:
                result = f"(not tried: {first_line(error)})"
            self.lines.append(f"{began:%H:%M:%S.%f} {result}".rstrip())
            if self.end.wait(PAUSE):
                return


def questions_of_packets(
    hosts: Hosts, path: Attempt, seconds: float, captures: dict[str, Capture]
) -> dict[str, Callable[[], str]]:
    """Return the captures to make on the nodes of a path's ends. ``captures`` receives the packets
    from Linux nodes, by node."""
    ends = ends_of(path)
    pods = {end.address for end in ends}
    host = path.target.host if path.target else ""
    if _is_address(host):
        pods.add(host)
    nodes = {end.node_address for end in ends} - pods if _is_address(host) else set[str]()

    def on_linux(node: str) -> str:
        captures[node] = found = hosts.packets_on_linux(node, seconds, VXLAN_PORT, pods, nodes)
        return packets.text(found, VXLAN_PORT)

    def on_windows(node: str) -> str:
        return (
            hosts.packets_on_windows(node, seconds, pods)
            or "pktmon captured no packet of these addresses"
        )

    return {
        f"packets on {end.node}": functools.partial(
            on_windows if end.os == "windows" else on_linux, end.node
        )
        for end in ends
    }


def ends_of(path: Attempt) -> list[Workload]:
    """Return the pods at a path's ends: the source, and the pods that may answer."""
    return [path.source, *(path.target.backends[:BACKENDS] if path.target else ())]


def _is_address(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True
