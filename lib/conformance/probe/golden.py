# SPDX-License-Identifier: Apache-2.0
"""Golden conversations of the probe protocol, held with a real agent in a pod and compared word for
word.

In the first minute of a run they show where a system's own interpreter behaves differently (Windows
PowerShell 5.1, a FIPS policy, a code page), by the line that differs. Most conversations use only
the pod's own echo server and a closed port, on loopback, where no network can interfere.
Conversations marked ``beside`` need :class:`Servers`, which for all but one conversation are in
another pod. The conversations are written in ``tests/contract/golden``; ``tools/package_golden.py``
copies them.
"""

import functools
import json
import queue
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import Any

from conformance.errors import ProbeBroken
from conformance.kube.client import Kube
from conformance.kube.streaming import ExecEnd, ExecStream
from conformance.kube.transcript import Transcript
from conformance.model.endpoint import Workload
from conformance.pods.roles import ECHO_PORT
from conformance.probe import protocol
from conformance.probe.prober import Prober
from conformance.probe.protocol import AGENTS, STREAM_AGENTS, Program
from conformance.settings import OsTimings

Document = dict[str, Any]
SHOWN = 500
"""The maximum number of characters of a differing line in a message."""
CLOSED_PORT = 1
"""A port without a listener in the suite's pods."""
GOLDEN_SERVER = Program(
    "golden_server.py", ("python3", "-I", "-S", "-u", "/probe/golden_server.py")
)
LOOPBACK = "127.0.0.1"

REACHES: Document = {
    "case": "the servers are reached",
    "lines": [
        {"to": {"type": "batch", "batch": "c", "attempts": [
            {"id": 0, "kind": "http", "give_up_ms": 10_000, "host": "$HOST", "port": "$HTTP", "path": "/plain"},
            {"id": 1, "kind": "udp", "give_up_ms": 10_000, "host": "$HOST", "port": "$SAME"},
        ]}},
        {"results": {"batch": "c", "results": [{"id": 0, "verdict": "CONNECTED"}, {"id": 1, "verdict": "CONNECTED"}]}},
    ],
}  # fmt: skip
"""The conversation that runs first with the servers of another pod. If it differs, the network is
at fault."""


@dataclass(frozen=True)
class Servers:
    """Servers that run in a pod."""

    pod: Workload
    ports: Mapping[str, int]
    """The servers' ports, by their names in the conversations, such as ``$HTTP``."""

    def seen_from(self, workload: Workload) -> dict[str, Any]:
        """Return the servers' ports, and as ``$HOST`` the address at which ``workload`` reaches
        them: loopback if the servers are in the same pod."""
        return {**self.ports, "$HOST": LOOPBACK if workload == self.pod else self.pod.address}


@contextmanager
def serving(
    kube: Kube, pod: Workload, patience: OsTimings, transcript: Transcript
) -> Iterator[Servers]:
    """Run the servers in a Linux pod for the duration of the block. Raise ProbeBroken if they do
    not report their ports."""
    talk = _Talk(kube, pod, GOLDEN_SERVER, patience, transcript)
    try:
        listening = talk.hear(patience.agent_hello, {"type": "listening"})
        if listening["type"] != "listening":
            raise talk.broken(f"it wrote {json.dumps(listening)[:SHOWN]} before it listened")
        yield Servers(pod, {str(name): int(port) for name, port in listening["ports"].items()})
    finally:
        talk.close()


@functools.cache
def conversations(program: str = "agent") -> tuple[Document, ...]:
    """Return the conversations with an ``agent`` or a ``stream agent``, ordered by case, without
    hello and quit."""
    text = resources.files(__package__).joinpath("golden.json").read_text(encoding="utf-8")
    return tuple(json.loads(text)[program])


def filled(document: Any, values: Mapping[str, Any]) -> Any:
    """Return the document with names such as ``$ECHO`` replaced by values."""
    if isinstance(document, dict):
        return {key: filled(value, values) for key, value in document.items()}
    if isinstance(document, list):
        return [filled(value, values) for value in document]
    return values.get(document, document) if isinstance(document, str) else document


def differs(wanted: Any, found: Any, where: str = "line") -> str:
    """Return where a line differs from the example; an empty string if it does not differ.

    In an example ``"*"`` is anything, ``"#"`` a number, and ``{"has": [...]}`` a text with these
    parts.
    """
    if wanted == "*":
        return ""
    if isinstance(wanted, dict) and isinstance(found, dict) and list(wanted) != ["has"]:
        gaps = [key for key in wanted if key not in found]
        if gaps:
            return f"{where} lacks {gaps}"
        return _first(differs(wanted[key], found[key], f"{where}.{key}") for key in wanted)
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        both = enumerate(zip(wanted, found, strict=True))
        return _first(differs(one, other, f"{where}[{n}]") for n, (one, other) in both)
    return _value_differs(wanted, found, where)


def _value_differs(wanted: Any, found: Any, where: str) -> str:
    if wanted == "#":
        number = isinstance(found, (int, float)) and not isinstance(found, bool)
        return "" if number else f"{where}: expected a number, found {found!r}"
    if isinstance(wanted, dict) and list(wanted) == ["has"]:
        gaps = [text for text in wanted["has"] if text not in str(found)]
        return f"{where}: {found!r} does not name {gaps}" if gaps else ""
    same = wanted == found and type(wanted) is type(found)
    return "" if same else f"{where}: expected {wanted!r}, found {found!r}"


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def hold(
    kube: Kube,
    workload: Workload,
    program: protocol.Program,
    patience: OsTimings,
    transcript: Transcript,
    *,
    echo_port: int = ECHO_PORT,
    servers: Servers | None = None,
) -> int:
    """Run the conversations with a pod's own agent, and an echo server on ``echo_port``. Return
    the number of conversations.

    Conversations that need ``servers`` are run only if there are servers. Raise ProbeBroken if the
    agent broke, or if a line of its answers differs; the message shows the line.
    """
    values: dict[str, Any] = {
        "$ECHO": echo_port,
        "$REFUSING": CLOSED_PORT,
        "$POD": f"{workload.namespace}/{workload.pod}",
        "$NODE": workload.node,
        **(servers.seen_from(workload) if servers else {}),
    }
    streams = program in STREAM_AGENTS.values()
    chosen = [
        item
        for item in conversations("stream agent" if streams else "agent")
        if servers or "beside" not in item
    ]
    far = servers.pod.label if servers and servers.pod != workload else ""
    talk = _Talk(kube, workload, program, patience, transcript)
    try:
        hello = talk.hear(patience.agent_hello, {"type": "hello"})
        if problem := protocol.other_program(hello, program):
            raise talk.broken(f"it is not the suite's program: {problem}")
        if far and not streams:
            talk.carry_out(filled(REACHES, values), far)
        for conversation in chosen:
            talk.carry_out(filled(conversation, values), far if "beside" in conversation else "")
    finally:
        talk.close()
    return len(chosen)


def hold_by(
    prober: Prober, transcript: Transcript, workload: Workload, servers: Servers | None = None
) -> None:
    """Run the conversations as :func:`hold` does, with the usual agents of the pod's operating
    system, within the limits of probing."""
    patience = prober.settings.timings.of(workload.os)
    for program in (AGENTS[workload.os], STREAM_AGENTS[workload.os]):
        prober.counts.starts[workload.node, workload.os] += 1
        with prober.agents.starting(workload, patience.agent_slot):
            hold(prober.kube, workload, program, patience, transcript, servers=servers)


class _Talk:
    """A conversation under way."""

    def __init__(
        self,
        kube: Kube,
        workload: Workload,
        program: protocol.Program,
        patience: OsTimings,
        transcript: Transcript,
    ) -> None:
        self._where = f"agent {program.name} in {workload.label}"
        self._within = patience.exec_overhead
        self._heard: queue.Queue[bytes | ExecEnd] = queue.Queue()
        self._stream = ExecStream(
            kube,
            workload.namespace,
            workload.pod,
            workload.container,
            program.argv,
            on_line=self._heard.put,
            on_end=self._heard.put,
            silence=patience.agent_silence,
            transcript=transcript,
        )

    def carry_out(self, conversation: Document, far: str = "") -> None:
        """Carry out the conversation. Raise ProbeBroken at the first line that differs. ``far``:
        the other pod whose servers it uses."""
        between = (
            f" (with servers in {far}: the network between them may be the reason)" if far else ""
        )
        look = "check whether the two pods reach each other; if they do, " if far else ""
        for line in conversation["lines"]:
            if "to" in line:
                self._stream.send(json.dumps(line["to"]).encode("ascii"))
            elif "text" in line:
                self._stream.send(line["text"].encode("utf-8").removesuffix(b"\n"))
            else:
                wanted = line["from"] if "from" in line else line["results"]
                found = (
                    self.hear(self._within, wanted) if "from" in line else self._whole_batch(wanted)
                )
                if problem := differs(wanted, found):
                    raise self.broken(
                        f"golden conversation {conversation['case']!r}{between}: {problem}\n"
                        f"  expected {json.dumps(wanted)[:SHOWN]}\n  observed {json.dumps(found)[:SHOWN]}\n"
                        f"  do       {look}report both lines with the node's build: every verdict of this agent is in "
                        "doubt"
                    )

    def _whole_batch(self, wanted: Document) -> Document:
        """Return all results of a batch, sorted by id, from any number of lines. If a line is no
        result of this batch, return this line."""
        results: list[Document] = []
        while True:
            found = self.hear(self._within, {"type": "results"})
            if found["type"] != "results" or found.get("batch") != wanted["batch"]:
                return found
            results += found["results"]
            if not found["left"]:
                return {
                    "batch": wanted["batch"],
                    "results": sorted(results, key=lambda result: int(result["id"])),
                }

    def hear(self, within: float, wanted: Document) -> Document:
        """Return the agent's next line. Heartbeats are skipped unless a heartbeat is expected."""
        due = time.monotonic() + within
        while True:
            try:
                line = self._heard.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                raise self.broken(
                    f"it wrote nothing within {within:.0f} s, expected {json.dumps(wanted)}"
                ) from None
            if isinstance(line, ExecEnd):
                how = line.problem or f"status {line.exit_code}"
                raise self.broken(f"it ended ({how}; stderr {line.stderr.strip()[-SHOWN:]!r})")
            document = protocol.read_line(line)
            if document and (document["type"] != "beat" or wanted["type"] == "beat"):
                return document

    def broken(self, how: str) -> ProbeBroken:
        return ProbeBroken(
            f"{self._where} does not follow the probe protocol: {how}", transport=how
        )

    def close(self) -> None:
        self._stream.send(b'{"type":"quit"}')
        self._stream.close()
