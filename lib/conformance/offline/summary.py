# SPDX-License-Identifier: Apache-2.0
"""The summary of the effects of policies, in numbers and sentences, for every output format."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from conformance.model.counted import counted
from conformance.policy.oracle.fields import PROTOCOLS, Range
from conformance.policy.oracle.oracle import Verdict
from conformance.policy.reach import ICMP, Answer, Difference, End, Group, Reach
from conformance.policy.unread import passed_over, unread_policies

OPEN = "open"
CLOSED = "closed"
PARTLY = "by port"
WORDS = {
    Verdict.ALLOWED: OPEN,
    Verdict.DENIED: CLOSED,
    Verdict.NOT_SAID: "not said",
    Verdict.NOT_JUDGED: "not judged",
}
SYMBOLS = {OPEN: ".", CLOSED: "x", PARTLY: "+", "not said": "?", "not judged": "!"}
NAMES = {number: name.upper() for name, number in PROTOCOLS.items()}
MOST_RANGES = 4
FEW = 3
UNDESCRIBED = "assumed: no file describes the namespace, so it has no label except its name"


@dataclass(frozen=True, eq=False)
class Results:
    """The answers that many pairs of groups have in common."""

    answers: tuple[Answer, ...]

    @cached_property
    def word(self) -> str:
        """Return the documented result in a word."""
        return word(self.answers, 0)

    @cached_property
    def differs(self) -> bool:
        """Return whether the verdict of a column differs from the documented verdict."""
        return any(len(set(answer.verdicts)) > 1 for answer in self.answers)

    @cached_property
    def rows(self) -> list[tuple[str, Answer]]:
        """Return the distinct answers, each with its protocols and ports."""
        found: dict[tuple[object, ...], list[Answer]] = {}
        for answer in self.answers:
            found.setdefault((answer.verdicts, answer.differences), []).append(answer)
        return [
            (", ".join(dict.fromkeys(at(one, self.answers) for one in same)), same[0])
            for same in found.values()
        ]


@dataclass(frozen=True)
class Cell:
    """The results of the paths from one group to another."""

    source: Group
    destination: Group
    paths: int
    """The number of pairs of ends."""
    results: Results


def word(answers: Sequence[Answer], column: int) -> str:
    """Return a column's result in a word: a word for all protocols and ports, or a word for
    different results."""
    found = {WORDS[answer.verdicts[column]] for answer in answers}
    return found.pop() if len(found) == 1 else PARTLY


class Summary:
    """The results of a policy evaluation, group by group."""

    def __init__(self, reach: Reach, without_namespace: Sequence[str] = ()) -> None:
        self.reach = reach
        self.groups = reach.groups
        self.labels = {id(group): letters_of(place) for place, group in enumerate(self.groups)}
        self._without_namespace = without_namespace

    @cached_property
    def cells(self) -> dict[tuple[int, int], Cell]:
        """Return the cells by the indexes of source and destination."""
        found = {}
        results: dict[int, Results] = {}
        for row, source in enumerate(self.groups):
            for column, destination in enumerate(self.groups):
                pair = pair_of(source, destination)
                answers = self.reach.between(*pair) if pair else ()
                if answers:  # no answers if the ends have no addresses of the same IP version
                    paths = paths_between(source.ends, destination.ends)
                    same = results.setdefault(id(answers), Results(answers))
                    found[row, column] = Cell(source, destination, paths, same)
        return found

    @cached_property
    def alike(self) -> dict[Results, list[Cell]]:
        """Return the cells with the same results."""
        found: dict[Results, list[Cell]] = {}
        for cell in self.cells.values():
            found.setdefault(cell.results, []).append(cell)
        return found

    def of(self, group: Group) -> str:
        """Return the letter of a group."""
        return self.labels[id(group)]

    def headlines(self) -> Iterator[str]:
        """Yield the first sentences of the answer: the number of open paths, and the columns that
        differ."""
        pods = len(self.reach.world.pods)
        policies = len(self.reach.oracle.policies)
        counts = {
            one: sum(
                cell.paths
                for results, same in self.alike.items()
                if results.word == one
                for cell in same
            )
            for one in SYMBOLS
        }
        text = ", ".join(f"{number} {one}" for one, number in counts.items() if number)
        yield (
            f"{counted(pods, 'pod')}, {counted(policies, 'policy', 'policies')}: "
            f"{counted(sum(counts.values()), 'path')}, as promised {text or 'none'}"
        )
        if not policies:
            yield "these files contain no policy"
        by_sentence: dict[str, list[str]] = {}
        for place, column in enumerate(self.reach.columns[1:], start=1):
            for sentence in self._departures(place):
                by_sentence.setdefault(sentence, []).append(
                    "on Windows" if place == 1 else column.name
                )
        yield from (f"{', '.join(names)}: {sentence}" for sentence, names in by_sentence.items())
        if self.reach.unjudged:
            yield (
                f"{counted(len(self.reach.unjudged), 'pod')} not judged, since an object of a kind "
                "that is not read may apply to them"
            )

    def _departures(self, place: int) -> Iterator[str]:
        for before, after, does, other in (
            (Verdict.DENIED, Verdict.ALLOWED, "open", "close"),
            (Verdict.ALLOWED, Verdict.DENIED, "closed", "open"),
        ):
            paths = sum(
                cell.paths
                for results, same in self.alike.items()
                if any(
                    (answer.verdicts[0], answer.verdicts[place]) == (before, after)
                    for answer in results.answers
                )
                for cell in same
            )
            if paths:
                yield f"{counted(paths, 'path is', 'paths are')} {does} that the policies {other}"

    def notes(self, most: int) -> Iterator[str]:
        """Yield notes about assumptions, ignored objects, and policies without an effect. ``most``:
        the maximum number of names in a line."""
        reach = self.reach
        reasons = dict.fromkeys(reach.unjudged.values())
        for why in reasons:
            pods = some([pod for pod, reason in reach.unjudged.items() if reason == why], most)
            yield f"not judged, since {why}: {pods}"
        for pod, rules in reach.panics().items():
            yield (
                f"DANGER: these end Felix on the node of {pod}, again and again, from v3.29 on: "
                f"{rules[0]}"
            )
            yield from (f"    and {other}" for other in rules[1 : 1 + most])
        world = reach.world
        reported = {
            "also not read, or for no pod here": [
                name for name in unread_policies(world) if f"{name} is not read" not in reasons
            ],
            "selects no pod": reach.selecting_nobody,
            "assumed: in namespace default, since no namespace is named": self._without_namespace,
            UNDESCRIBED: world.undescribed,
            "assumed: no address is known, so it is in no network except 0.0.0.0/0": (
                world.without_address
            ),
            "on their node's network, where no policy for pods applies": world.on_host,
            "ended, so no policy applies to them": world.ended,
            "the system is not known, so it is judged as a Linux and as a Windows pod": (
                reach.of_unknown_system
            ),
            "no object names the members of Service": [
                "/".join(one) for one in sorted(reach.world.unknown_services)
            ],
            "ignored, neither a pod nor a policy": passed_over(reach.world),
        }
        yield from (f"{what}: {some(names, most)}" for what, names in reported.items() if names)


def pair_of(source: Group, destination: Group) -> tuple[End, End] | None:
    """Return two ends that represent two groups; None if there is no answer for them."""
    if not (source.first.pod or destination.first.pod):
        return None
    return next(
        (
            (one, other)
            for one in source.ends[:2]
            for other in destination.ends[:2]
            if one.name != other.name
        ),
        None,
    )


def paths_between(sources: Sequence[End], destinations: Sequence[End]) -> int:
    """Return the number of paths. An end has no path to itself."""
    names = {end.name for end in destinations}
    return len(sources) * len(destinations) - sum(end.name in names for end in sources)


def letters_of(place: int) -> str:
    """Return the letters of the group with an index: ``A`` to ``Z``, ``AA`` ..."""
    text = ""
    while place >= 0:
        text = chr(ord("A") + place % 26) + text
        place = place // 26 - 1
    return text


def some(names: Sequence[str], most: int) -> str:
    """Return the first names, and the number of the other names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def named(end: End) -> str:
    """Return an end's name with its operating system."""
    return f"{end.name} ({end.os})" if end.os else end.name


def at(answer: Answer, answers: Sequence[Answer]) -> str:
    """Return protocol and ports, ``TCP 80,443``; for a whole protocol, its name."""
    version = " over IPv6" if answer.family == 6 else ""
    if answer.protocol in ICMP:
        return f"{NAMES[answer.protocol]} echo{version}"
    name = NAMES.get(answer.protocol, str(answer.protocol)) + version
    same = [
        one for one in answers if (one.family, one.protocol) == (answer.family, answer.protocol)
    ]
    if len(same) == 1:
        return name
    if len(answer.ports) > MOST_RANGES:
        return f"other {name} ports"
    return f"{name} {','.join(map(ports_text, answer.ports))}"


def ports_text(ports: Range) -> str:
    """Return ``80`` or ``80-90``."""
    return str(ports[0]) if ports[0] == ports[1] else f"{ports[0]}-{ports[1]}"


def explained(answer: Answer) -> list[tuple[str, ...]]:
    """Return the explanations of an answer's differences; each explanation is a list of lines."""
    by_cause: dict[tuple[object, ...], list[Difference]] = {}
    for one in answer.differences:
        by_cause.setdefault((one.direction, str(one.found), one.departures), []).append(one)
    return [
        (
            f"{same[0].direction}, promised: {same[0].promised}",
            f"{', '.join(one.column for one in same)}: {same[0].found}",
            *(f"{departure}: {departure.statement}" for departure in same[0].departures),
        )
        for same in by_cause.values()
    ]
