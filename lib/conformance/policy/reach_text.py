# SPDX-License-Identifier: Apache-2.0
"""The answer of ``calico-conformance policy`` as text: a table for each destination, and a note for each difference."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from conformance.policy.oracle.fields import PROTOCOLS, Range
from conformance.policy.oracle.oracle import Verdict
from conformance.policy.reach import COLUMNS, Difference, End, Reach, Way

_WORDS = {Verdict.ALLOWED: "open", Verdict.DENIED: "closed", Verdict.NOT_SAID: "not said"}
_NAMES = {number: name.upper() for name, number in PROTOCOLS.items()}
_MOST_RANGES = 4


def text(reach: Reach) -> Iterator[str]:
    """The lines: tables, notes, what may end Felix, what was assumed."""
    notes: dict[tuple[str, ...], int] = {}
    for destination, ways in groupby(reach.ways(), lambda way: way.destination):
        yield from _table(destination, list(ways), notes)
        yield ""
    for said, number in notes.items():
        yield f"[{number}] {said[0]}"
        yield from (f"    {line}" for line in said[1:])
    for pod, rules in reach.panics().items():
        yield f"DANGER: these end Felix on the node of {pod}, again and again, from v3.29 on: {rules[0]}"
        yield from (f"    and {other}" for other in rules[1:])
    if not reach.oracle.policies:
        yield "no policy is in these files"
    yield from (f"assumed: {line}" for line in reach.world.assumed)
    if reach.passed_over:
        yield f"passed over, no pod and no policy: {', '.join(reach.passed_over)}"


def _table(destination: End, ways: list[Way], notes: dict[tuple[str, ...], int]) -> Iterator[str]:
    rows: dict[tuple[str, ...], list[str]] = {}
    for source, listed in groupby(ways, lambda way: way.source):
        for ports, way in _by_answer(list(listed)):
            marks = " ".join(f"[{notes.setdefault(said, len(notes) + 1)}]" for said in _notes(way))
            verdicts = (_WORDS[verdict] for verdict in way.verdicts)
            rows.setdefault((ports, *verdicts, marks), []).append(_end(source))
    yield f"to {_end(destination)}"
    cells = [("FROM", "AT", *COLUMNS, "")]
    cells += [(", ".join(sources), *row) for row, sources in rows.items()]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        yield (
            "  "
            + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def _by_answer(ways: list[Way]) -> Iterator[tuple[str, Way]]:
    """The ways of one pair, those with the same answer together: ``TCP 80, UDP``."""
    parts: dict[int, int] = {}
    for way in ways:
        parts[way.protocol] = parts.get(way.protocol, 0) + 1
    answers: dict[str, list[Way]] = {}
    for way in ways:
        answers.setdefault(f"{way.verdicts} {way.differences}", []).append(way)
    for same in answers.values():
        yield ", ".join(_at(way, whole=parts[way.protocol] == 1) for way in same), same[0]


def _at(way: Way, *, whole: bool) -> str:
    name = _NAMES.get(way.protocol, str(way.protocol))
    if way.protocol == PROTOCOLS["icmp"]:
        return f"{name} echo"
    if whole:
        return name
    if len(way.ports) > _MOST_RANGES:
        return f"other {name} ports"
    return f"{name} {','.join(_range(one) for one in way.ports)}"


def _range(ports: Range) -> str:
    return str(ports[0]) if ports[0] == ports[1] else f"{ports[0]}-{ports[1]}"


def _end(end: End) -> str:
    return f"{end.name} ({end.os})" if end.os else end.name


def _notes(way: Way) -> Iterator[tuple[str, ...]]:
    """What explains the differences of a way, one note for each end and explanation."""
    by_cause: dict[tuple[object, ...], list[Difference]] = {}
    for one in way.differences:
        by_cause.setdefault((one.direction, str(one.found), one.departures), []).append(one)
    for same in by_cause.values():
        yield _note(same)


def _note(same: Sequence[Difference]) -> tuple[str, ...]:
    first = same[0]
    return (
        f"{first.direction}, promised: {first.promised}",
        f"{', '.join(one.column for one in same)}: {first.found}",
        *(f"{departure}: {departure.statement}" for departure in first.departures),
    )
