"""The servers that some golden conversations need, run in a Linux pod for as long as they are held."""

import queue
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from conformance.errors import ProbeBroken
from conformance.kube.client import Kube
from conformance.kube.streaming import ExecEnd, ExecStream
from conformance.kube.transcript import Transcript
from conformance.model.endpoint import Workload
from conformance.probe import protocol
from conformance.probe.protocol import Program
from conformance.settings import OsTimings

GOLDEN_SERVER = Program(
    "golden_server.py", ("python3", "-I", "-S", "-u", "/probe/golden_server.py")
)
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Servers:
    """Servers that run in a pod."""

    pod: Workload
    ports: Mapping[str, int]
    """By their names in the conversations, such as ``$HTTP``."""

    def seen_from(self, workload: Workload) -> dict[str, Any]:
        """Their ports and ``$HOST``, where that pod finds them: its own pod's on loopback."""
        return {**self.ports, "$HOST": LOOPBACK if workload == self.pod else self.pod.address}


@contextmanager
def serving(
    kube: Kube, pod: Workload, patience: OsTimings, transcript: Transcript
) -> Iterator[Servers]:
    """They run meanwhile in that pod.  Raises ProbeBroken when they do not say where they listen."""
    heard: queue.Queue[bytes | ExecEnd] = queue.Queue()
    stream = ExecStream(
        kube,
        pod.namespace,
        pod.pod,
        pod.container,
        GOLDEN_SERVER.argv,
        on_line=heard.put,
        on_end=heard.put,
        silence=patience.agent_silence,
        transcript=transcript,
    )
    try:
        yield Servers(pod, _ports(heard, pod, patience.agent_hello))
    finally:
        stream.send(b'{"type":"quit"}')
        stream.close()


def _ports(heard: queue.Queue[bytes | ExecEnd], pod: Workload, within: float) -> dict[str, int]:
    due = time.monotonic() + within
    while True:
        try:
            line = heard.get(timeout=max(0.0, due - time.monotonic()))
        except queue.Empty:
            raise _broken(pod, f"it said nothing within {within:.0f} s") from None
        if isinstance(line, ExecEnd):
            how = line.problem or f"status {line.exit_code}"
            raise _broken(pod, f"it ended ({how}; stderr {line.stderr.strip()[-500:]!r})")
        document = protocol.read_line(line)
        if document and document["type"] == "listening":
            return {str(name): int(port) for name, port in document["ports"].items()}


def _broken(pod: Workload, how: str) -> ProbeBroken:
    return ProbeBroken(f"{GOLDEN_SERVER.name} in {pod.label}: {how}", transport=how)
