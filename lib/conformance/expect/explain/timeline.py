# SPDX-License-Identifier: Apache-2.0
"""The events at both ends of streams on one time line. The functions build text from their
arguments alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from conformance.model.stream import StreamState

SHOWN = 9
"""The number of lines of a time line that a message shows; the whole time line is an attachment."""


@dataclass(frozen=True)
class Mark:
    """An action or observation of the suite while streams were open."""

    at: float
    """Unix seconds."""
    what: str


def lines(state: StreamState, marks: Sequence[Mark]) -> list[str]:
    """Return ``+1.234 s server ended RESET ECONNRESET``: the seconds since the first event, with
    the suite's own marks in between."""
    found: list[tuple[float, str, str]] = [(mark.at, "suite", mark.what) for mark in marks]
    found += [
        (event.at, side, f"{event.what:9}  {event.detail}".rstrip())
        for event, side in state.timeline
    ]
    found.sort(key=lambda entry: entry[0])
    begin = found[0][0] if found else 0.0
    return [f"+{at - begin:7.3f} s  {who:6}  {text}" for at, who, text in found]


def excerpt(state: StreamState, marks: Sequence[Mark]) -> str:
    """Return the newest lines, as the last part of a message."""
    whole = lines(state, marks)
    shown = whole[-SHOWN:]
    left = (
        [f"({len(whole) - len(shown)} earlier events in the attachment)"]
        if len(shown) < len(whole)
        else []
    )
    return "\n".join(f"  {line}" for line in ["both ends on one time line:", *left, *shown])


def whole(states: Sequence[StreamState], marks: Sequence[Mark]) -> str:
    """Return every stream's time line, for the report."""
    return "\n\n".join(
        "\n".join([state.label, f"  {state.words}", *lines(state, marks)]) for state in states
    )
