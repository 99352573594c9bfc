# SPDX-License-Identifier: Apache-2.0
"""Whoever ends connections waits for those that can answer, and for no other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from hybridlab.dataplane import resets
from hybridlab.dataplane.resets import Resets, ResetTarget
from hybridlab.kernel.conntrack import Connection, Tuple, Worth
from hybridlab.kernel.segments import ACK, RST, Segment, decode

PEER, GONE, SILENT, THERE = "10.1.0.9", "10.1.0.1", "10.1.0.2", "10.1.0.3"
INTERFACES = {GONE: "cali1", SILENT: "cali2", THERE: "cali3"}
LOOKS = 50_000
"""More than any patience has room for: a listener that is asked more often never stops listening."""


class Conntrack:
    def entries(self, worth: Worth) -> Iterator[Connection]:
        for pod in INTERFACES:
            there, back = Tuple(PEER, pod, 5000, 80), Tuple(pod, PEER, 80, 5000)
            yield Connection("tcp", there, back, "ESTABLISHED", 0, b"")

    def close(self) -> None:
        pass


class Link:
    """One pod is gone, one never answers, one does; and others of the node speak all the time."""

    def __init__(self) -> None:
        self.answers: list[Segment] = []
        self.looks = 0

    def listen(self, *, on: bool) -> None:
        pass

    def send(self, interface: str, mac: str, packet: bytes) -> None:
        if interface == INTERFACES[GONE]:
            raise OSError(19, "No such device")
        if interface == INTERFACES[THERE]:
            self.answers.append(Segment(THERE, 80, PEER, 5000, 7, 8, ACK))

    def receive(self, seconds: float) -> Iterator[Segment]:
        self.looks += 1
        if self.looks > LOOKS:
            raise AssertionError("still listening")
        yield Segment("10.1.0.77", 1, "10.1.0.78", 2, 3, 4, ACK)
        yield from self.answers
        self.answers.clear()

    def close(self) -> None:
        pass


class Raw:
    def __init__(self) -> None:
        self.sent: list[Segment | None] = []

    def sendto(self, packet: bytes, to: tuple[str, int]) -> None:
        self.sent.append(decode(packet))

    def close(self) -> None:
        pass


@pytest.mark.parametrize("beside", [GONE, SILENT])
def test_a_pod_that_does_not_answer_holds_nobody_up_while_others_speak(
    monkeypatch: pytest.MonkeyPatch, beside: str
) -> None:
    link, raw = Link(), Raw()
    monkeypatch.setattr(
        "hybridlab.dataplane.resets.namespaces.entered", lambda netns: contextlib.nullcontext()
    )
    monkeypatch.setattr(resets, "ConntrackSocket", Conntrack)
    monkeypatch.setattr(resets, "LinkSocket", lambda: link)
    monkeypatch.setattr(resets, "raw_socket", lambda: raw)
    monkeypatch.setattr(resets, "_ANSWER_SECONDS", 0.001)
    working = Resets(0, both=False)
    working._end(
        {
            pod: ResetTarget(pod, INTERFACES[pod], "02:00:00:00:00:01", None)
            for pod in (beside, THERE)
        }
    )
    assert [(told.destination, told.flags) for told in raw.sent if told] == [(PEER, RST | ACK)]
    if beside == GONE:
        assert link.looks == 1, "nothing is waited for when the one that can answer has"
    working.close()
