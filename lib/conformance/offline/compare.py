# SPDX-License-Identifier: Apache-2.0
"""The changes between two sets of objects, or between two columns: the paths that open or close,
each with the deciding rule and policy."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from conformance.errors import UsageProblem
from conformance.model.counted import counted
from conformance.offline.summary import NAMES, WORDS, named, paths_between, ports_text, some
from conformance.offline.text import wrapped
from conformance.policy.oracle.fields import Range, joined
from conformance.policy.oracle.oracle import Decision, Verdict, of_way
from conformance.policy.oracle.switches import PROMISE, RELEASES, WINDOWS, Column, as_shipped
from conformance.policy.reach import EVERY_PORT, ICMP, Answer, End, Reach, is_pair

FAILS = {"opens": {"opens"}, "closes": {"closes"}, "any": {"opens", "closes", "changes"}}
WORD = {"opens": "now open", "closes": "now closed", "changes": "without a sure verdict"}
OWN = "own"


def column(name: str) -> Column:
    """Return a column by its name: ``promise``, ``windows``, or a release (``v3.31``)."""
    name = name.lower()
    if name in ("promise", "linux"):
        return Column("promise", PROMISE)
    if name in ("windows", OWN):
        return Column("windows", WINDOWS)
    known = {f"v{major}.{minor}": (major, minor) for major, minor in RELEASES}
    if name not in known:
        raise UsageProblem(
            f"column {name!r}: one of promise, windows, {', '.join(known)} is expected"
        )
    return Column(name, as_shipped(known[name]), known[name])


def is_column(name: str) -> bool:
    """Return whether a word names a column."""
    return bool(re.fullmatch(r"promise|windows|v\d+\.\d+", name.lower()))


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    reach: Reach
    column: Column

    def decisions(self, ends: tuple[End, End], answer: Answer, port: int) -> list[Decision]:
        """Return the decisions about a connection, at both ends."""
        packet = self.reach.packet(ends, answer.family, answer.protocol, port)
        found = (
            self.reach.decision(ends[0], "egress", packet, self.column),
            self.reach.decision(ends[1], "ingress", packet, self.column),
        )
        return [one for one in found if one]


@dataclass(frozen=True)
class Change:
    """A change of paths between two groups of ends."""

    kind: str
    """``opens``, ``closes``, or ``changes`` if the verdict of a side is unknown."""
    sources: tuple[End, ...]
    destinations: tuple[End, ...]
    where: str
    """Protocol and ports."""
    before: str
    after: str
    because: str
    paths: int


class Comparison:
    """Two sides, and the differences between them."""

    def __init__(self, old: Side, new: Side) -> None:
        self.old = old
        self.new = new
        before = {(end.name, end.os): end for end in old.reach.ends}
        after = {(end.name, end.os): end for end in new.reach.ends}
        self.both = [(before[key], after[key]) for key in before if key in after]
        self.only_old = _alone(before, after)
        self.only_new = _alone(after, before)
        self.other_versions = sorted(
            {old.name for old, new in self.both if old.addresses.keys() != new.addresses.keys()}
        )
        """Ends whose IP versions differ between the sides; only common versions are compared."""
        self.groups: list[tuple[End, ...]] = []
        """Ends that the policies of both sides treat alike."""
        self.kinds: dict[tuple[int, int], set[str]] = {}
        """The kinds of changes between two groups, by the indexes of source group and destination
        group."""
        self.changes = list(self._changes())

    def fails(self, kinds: str) -> bool:
        """Return whether there is a change of one of these kinds."""
        return any(change.kind in FAILS[kinds] for change in self.changes)

    def _changes(self) -> Iterator[Change]:
        joint: dict[tuple[int, int], list[tuple[End, End]]] = {}
        for old, new in self.both:
            groups = self.old.reach.group_of[id(old)], self.new.reach.group_of[id(new)]
            joint.setdefault((id(groups[0]), id(groups[1])), []).append((old, new))
        listed = list(joint.values())
        self.groups = [tuple(end for end, _ in each) for each in listed]
        found: dict[tuple[str, ...], list[Change]] = {}
        for row, sources in enumerate(listed):
            for place, destinations in enumerate(listed):
                pair = next(
                    (
                        (one, other)
                        for one in sources[:2]
                        for other in destinations[:2]
                        if is_pair(one[0], other[0])
                    ),
                    None,
                )
                if pair:
                    for change in self._between(*pair, self.groups[row], self.groups[place]):
                        self.kinds.setdefault((row, place), set()).add(change.kind)
                        key = (
                            change.kind,
                            change.where,
                            change.before,
                            change.after,
                            change.because,
                        )
                        found.setdefault(key, []).append(change)
        for same in found.values():
            yield from _merged(same)

    def _between(
        self,
        source: tuple[End, End],
        destination: tuple[End, End],
        sources: tuple[End, ...],
        destinations: tuple[End, ...],
    ) -> Iterator[Change]:
        old, new = ((source[side], destination[side]) for side in (0, 1))
        before = self.old.reach.between(*old)
        after = self.new.reach.between(*new)
        if self.old.reach is self.new.reach and all(not one.differences for one in before):
            return
        paths = paths_between(sources, destinations)
        parts: dict[tuple[str, ...], list[tuple[Answer, Range]]] = {}
        for answer, ports in _cut(before, after):
            first = self.old.decisions(old, answer, ports[0])
            then = self.new.decisions(new, answer, ports[0])
            verdicts = of_way(first), of_way(then)
            if verdicts[0] is not verdicts[1]:
                because = f"{_deciding(then)}; before: {_deciding(first)}"
                key = (_kind(*verdicts), *(WORDS[one] for one in verdicts), because)
                parts.setdefault(key, []).append((answer, ports))
        yield from (
            Change(kind, sources, destinations, _where(text), word, now, because, paths)
            for (kind, word, now, because), text in parts.items()
        )


def _alone(mine: Mapping[tuple[str, str], End], others: Mapping[tuple[str, str], End]) -> list[str]:
    """Return the names of one side's ends that are not compared. If only the operating system of an
    end has changed, its name is followed by the operating system."""
    names = {name for name, _ in others}
    compared = {name for name, _ in mine.keys() & others.keys()}
    alone = [end for end in mine.values() if end.name not in compared]
    return sorted({named(end) if end.name in names else end.name for end in alone})


def _merged(same: Sequence[Change]) -> Iterator[Change]:
    """Yield changes that differ only in their sources as one change."""
    by_destination: dict[tuple[End, ...], list[Change]] = {}
    for one in same:
        by_destination.setdefault(one.destinations, []).append(one)
    yield from (
        replace(
            listed[0],
            sources=tuple(end for one in listed for end in one.sources),
            paths=sum(one.paths for one in listed),
        )
        for listed in by_destination.values()
    )


def _cut(before: Sequence[Answer], after: Sequence[Answer]) -> Iterator[tuple[Answer, Range]]:
    """Yield all ports, grouped into ranges that both sides treat alike, for the IP versions of both
    sides."""
    families = {one.family for one in before} & {one.family for one in after}
    sides: dict[tuple[int, int], list[Answer]] = {}
    for one in (*before, *after):
        if one.family in families:
            sides.setdefault((one.family, one.protocol), []).append(one)
    for (_, protocol), answers in sides.items():
        if protocol in ICMP:
            yield answers[0], (0, 0)
            continue
        cuts = {edge for one in answers for first, last in one.ports for edge in (first, last + 1)}
        ordered = sorted(cuts | {1, 65536})
        yield from ((answers[0], (first, behind - 1)) for first, behind in pairwise(ordered))


def _kind(before: Verdict, after: Verdict) -> str:
    return {
        (Verdict.DENIED, Verdict.ALLOWED): "opens",
        (Verdict.ALLOWED, Verdict.DENIED): "closes",
    }.get((before, after), "changes")


def _deciding(decisions: Sequence[Decision]) -> str:
    ordered = sorted(decisions, key=lambda one: not (one.policy or one.tier))
    return str(next((one for one in decisions if one.verdict is not Verdict.ALLOWED), ordered[0]))


def _where(parts: Sequence[tuple[Answer, Range]]) -> str:
    found: dict[str, list[Range]] = {}
    for answer, ports in parts:
        name = NAMES.get(answer.protocol, str(answer.protocol))
        name += " over IPv6" if answer.family == 6 else ""
        found.setdefault(name, []).append(ports)
    return ", ".join(
        name
        if joined(listed) in ((EVERY_PORT,), ((0, 0),))
        else f"{name} {','.join(map(ports_text, joined(listed)))}"
        for name, listed in found.items()
    )


def lines(found: Comparison, most: int, few: int) -> Iterator[str]:
    """Yield the comparison: first the number of paths that open and close, then each change."""
    yield from headlines(found, few)
    for change in found.changes[:most]:
        yield ""
        paths = counted(change.paths, "path")
        kind = change.kind.upper()
        yield f"{kind} {change.where}: {change.before} -> {change.after} ({paths})"
        for begin, text in (
            ("  from ", some([named(end) for end in change.sources], few)),
            ("  to   ", some([named(end) for end in change.destinations], few)),
            ("  ", change.because),
        ):
            yield from wrapped(begin, text, " " * max(4, len(begin)))
    if len(found.changes) > most:
        yield f"and {len(found.changes) - most} more changes: --all"


def headlines(found: Comparison, few: int) -> Iterator[str]:
    """Yield the number of paths that open and close, and the ends that were not compared."""
    counts = {
        kind: sum(change.paths for change in found.changes if change.kind == kind)
        for kind in ("opens", "closes", "changes")
    }
    reported = [
        f"{counted(number, 'path')}: {WORD[kind]}" for kind, number in counts.items() if number
    ]
    yield ", ".join(reported) or f"nothing changes for {counted(len(found.both), 'end')}"
    yield from (
        f"{what}: {some(names, few)}"
        for what, names in (
            ("gone, and not compared", found.only_old),
            ("new, and not compared", found.only_new),
            ("compared only by the IP versions of both sides", found.other_versions),
        )
        if names
    )


def plain(found: Comparison) -> dict[str, object]:
    """Return the comparison as plain data."""
    return {
        "changes": [
            {
                "kind": change.kind,
                "from": [named(end) for end in change.sources],
                "to": [named(end) for end in change.destinations],
                "at": change.where,
                "before": change.before,
                "after": change.after,
                "because": change.because,
                "paths": change.paths,
            }
            for change in found.changes
        ],
        "gone": found.only_old,
        "new": found.only_new,
        "other_ip_versions": found.other_versions,
    }
