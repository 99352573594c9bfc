# SPDX-License-Identifier: Apache-2.0
"""The events at both ends of a stream stand on one time line with what the suite did."""

from __future__ import annotations

from conformance.expect.explain.timeline import SHOWN, Mark, excerpt, lines, whole
from tests.unit.conformance.expect.stream_stand_ins import LOST, WELL

MARKS = [Mark(1000.5, "the change is made"), Mark(999.0, "policies are applied")]


def test_events_are_in_their_order_from_the_first_on() -> None:
    assert lines(LOST, MARKS) == [
        "+  0.000 s  suite   policies are applied",
        "+  1.000 s  client  opened",
        "+  1.000 s  server  opened",
        "+  1.500 s  suite   the change is made",
        "+  2.500 s  client  ended      RESET Connection reset by peer",
        "+  3.000 s  server  stalled    no heartbeat for 600 ms",
    ]


def test_a_message_has_the_newest_events_and_counts_the_earlier_ones() -> None:
    whole_line = lines(LOST, MARKS)
    head = "both ends on one time line:"
    assert excerpt(LOST, MARKS).splitlines() == [f"  {line}" for line in (head, *whole_line)]
    many = [Mark(900.0 + number, f"step {number}") for number in range(SHOWN)]
    shown = excerpt(LOST, many).splitlines()
    assert shown[:2] == [f"  {head}", "  (4 earlier events in the attachment)"]
    assert [line.strip() for line in shown[2:]] == lines(LOST, many)[-SHOWN:]


def test_a_report_has_every_stream_with_its_state() -> None:
    first, second = whole([LOST, WELL], []).split("\n\n")
    assert first.splitlines()[:2] == [LOST.label, f"  {LOST.words}"]
    assert second.splitlines()[2:] == lines(WELL, [])
