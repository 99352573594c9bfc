# SPDX-License-Identifier: Apache-2.0
"""Stale data planes over time: from an event of a class on, the nodes of one system miss a part of
the change.

This needs no planted bug and no cluster. A story shows a stale data plane if the oracle expects
another result of at least one cell, after such an event, than it would if the ends on that system
had missed the event. ``python -m tests.worlds.story_mutants`` prints how many the committed stories
show, and which they do not show. ``story_chooser.py`` composes stories that show more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from conformance.policy import worlds
from conformance.policy.oracle import fields
from conformance.policy.oracle.oracle import Decision, Oracle, Verdict, of_way
from conformance.policy.oracle.panics import panics
from conformance.policy.oracle.world import World as Pods
from conformance.policy.worlds import SYSTEMS, Cell, Seat
from conformance.stories.files import FOLDER, stories_in
from conformance.stories.model.story import Scene, Story
from tests.unit.conformance.stories.test_classes import TABLE
from tests.worlds.editing import is_policy
from tests.worlds.seats import NAMESPACES, SEATS

Obj = dict[str, Any]
Objects = Sequence[Obj]
TWICE = 2
MEMBERS = tuple(
    Seat("a", system, f"{system}-1", f"member-{system}", f"10.0.{number}.30", member=True)
    for number, system in enumerate(SYSTEMS)
)
ALL = (*SEATS, *MEMBERS)


class Mutant(NamedTuple):
    """A stale data plane."""

    forgets: str
    event: str
    """Class of the events at which it does."""
    os: str

    def __str__(self) -> str:
        return f"{self.os} forgets {self.forgets} when: {self.event}"


def _without(drop: Callable[[Obj], bool]) -> Callable[[Objects], list[Obj]]:
    return lambda objects: [obj for obj in objects if not drop(obj)]


def _of_direction(direction: str) -> Callable[[Objects], list[Obj]]:
    """Policies are for the other direction alone."""

    def read(objects: Objects) -> list[Obj]:
        found = []
        for obj in objects:
            if not is_policy(obj):
                found.append(obj)
                continue
            key = "policyTypes" if "podSelector" in obj["spec"] else "types"
            types = [each for each in obj["spec"].get(key) or ["Ingress"] if each != direction]
            spec = {name: value for name, value in obj["spec"].items() if name != direction.lower()}
            found += [{**obj, "spec": {**spec, key: types}}] if types else []
        return found

    return read


def _unlabelled(kind: str, *, members: bool = False) -> Callable[[Objects], list[Obj]]:
    def read(objects: Objects) -> list[Obj]:
        return [
            {**obj, "metadata": {**obj["metadata"], "labels": {}}}
            if obj["kind"] == kind and (not members or _is_member(obj))
            else obj
            for obj in objects
        ]

    return read


def _is_member(obj: Obj) -> bool:
    return obj["kind"] == "Pod" and str(obj["metadata"]["name"]).startswith("member-")


def _unknown(objects: Objects) -> list[Obj]:
    """Members are pods of which nothing is known: their peers have the addresses of before."""
    meta = {"namespace": "nowhere", "labels": {}}
    return [
        {**obj, "metadata": {**obj["metadata"], **meta}} if _is_member(obj) else obj
        for obj in objects
    ]


FORGETS: dict[str, Callable[[Objects], list[Obj]]] = {
    "all policies": _without(is_policy),
    "policies for ingress": _of_direction("Ingress"),
    "policies for egress": _of_direction("Egress"),
    "Calico's policies": _without(
        lambda obj: is_policy(obj) and str(obj["apiVersion"]).startswith("projectcalico")
    ),
    "Kubernetes' policies": _without(
        lambda obj: is_policy(obj) and str(obj["apiVersion"]).startswith("networking")
    ),
    "NetworkSets": _without(lambda obj: str(obj["kind"]).endswith("NetworkSet")),
    "labels of namespaces": _unlabelled("Namespace"),
    "labels of members": _unlabelled("Pod", members=True),
    "labels of accounts": _unlabelled("ServiceAccount"),
}
ADDRESS = "that members have other addresses now"
"""The addresses of pods that have ended are kept, and those of the pods after them unknown."""
READDRESSED = (
    "pod made", "pod made again", "pod replaced", "pod has ended", "pod deleted or evicted",
    "pod before its containers",
)  # fmt: skip
ITSELF = "the event itself"
"""What was written or deleted is as before."""
MUTANTS = [
    Mutant(forgets, one.name, system)
    for forgets in (*FORGETS, ITSELF)
    for one in TABLE.classes
    for system in SYSTEMS
    if forgets != ITSELF or one.word != "pods"
]
MUTANTS += [Mutant(ADDRESS, event, system) for event in READDRESSED for system in SYSTEMS]


KNOWN = frozenset(MUTANTS)


def objects_of(scene: Scene, seats: Sequence[Seat]) -> list[Obj]:
    """All objects of a scene on the least cluster."""
    return [
        *worlds.surroundings(scene.world, seats, NAMESPACES),
        *scene.world.filled(ALL, NAMESPACES),
    ]


def events_of(story: Story) -> Iterator[tuple[Scene, set[str]]]:
    """Each scene with the classes of the event that led to it."""
    before: tuple[Obj, ...] = ()
    ever: set[str] = set()
    for scene in story.scenes():
        found = TABLE.classes_of(scene.event, before, ever) if scene.event else set()
        before = tuple(scene.world.objects)
        ever |= {fields.label(obj) for obj in before}
        yield scene, found


def _differs(
    right: Sequence[Cell], wrong: Sequence[Cell], system: str, *, peers: bool = False
) -> bool:
    """Whether a cell is otherwise where the ends on a system decide as ``wrong`` has them.

    ``peers``: only the ends that are not members.
    """
    for cell, other in zip(right, wrong, strict=True):
        if Verdict.NOT_SAID in (cell.expected, other.expected):
            continue
        ends = (cell.source, cell.destination)
        decided: list[Decision] = [
            other.decisions[place]
            if end.os == system and not (peers and end.member)
            else cell.decisions[place]
            for place, end in enumerate(ends)
        ]
        if of_way(decided) is not cell.expected:
            return True
    return False


def showing(story: Story) -> Iterator[frozenset[Mutant]]:
    """The stale data planes that a story shows before its first event, and until after each."""
    found: set[Mutant] = set()
    happened: set[str] = set()
    past: list[Obj] = []
    for scene, classes in events_of(story):
        happened |= classes
        seats = scene.seats(ALL)
        objects = objects_of(scene, seats)
        right = list(worlds.cells(objects, seats, "POL-1"))
        for forgets, read in (*FORGETS.items(), (ADDRESS, _unknown)) if happened else ():
            mutated = read(objects)
            if mutated == objects:
                continue
            wrong = list(worlds.cells(mutated, seats, "POL-1"))
            for system in SYSTEMS:
                if _differs(right, wrong, system, peers=forgets == ADDRESS):
                    found.update(Mutant(forgets, event, system) for event in happened)
        if scene.event and not scene.event.pods:
            wrong = list(worlds.cells(past, seats, "POL-1"))
            for system in SYSTEMS:
                if _differs(right, wrong, system):
                    found.update(Mutant(ITSELF, event, system) for event in classes)
        past = objects
        yield frozenset(found & KNOWN)


def shown(story: Story) -> frozenset[Mutant]:
    """The stale data planes that a story shows."""
    *_, found = showing(story)
    return found


def seen_by(stories: Iterable[Story]) -> Counter[Mutant]:
    """Each stale data plane with the number of stories that show it."""
    found: Counter[Mutant] = Counter(dict.fromkeys(MUTANTS, 0))
    for one in stories:
        found.update(shown(one))
    return found


def committed() -> list[Story]:
    """The stories that ship."""
    return [*default(), *(file.story for file in stories_in(FOLDER / "all"))]


def default() -> list[Story]:
    """The stories of the default run."""
    return [file.story for file in stories_in(FOLDER)]


def closed_in(scene: Scene) -> frozenset[tuple[str, str, str, int]] | None:
    """What a scene of a story that may be committed closes; None: it may not be.

    It closes a path of each member that is there, decides nothing but its claim, and no Windows
    Felix ends by it.
    """
    seats = scene.seats(ALL)
    objects = objects_of(scene, seats)
    oracle = Oracle(Pods(objects), objects)
    if any(panics(oracle, pod) for pod in oracle.world.pods.values()):
        return None
    cells = list(worlds.cells(objects, seats, "POL-1"))
    closed = frozenset(
        (cell.source.pod, cell.destination.pod, cell.protocol, cell.port)
        for cell in cells
        if cell.expected is Verdict.DENIED
    )
    names = {name for way in closed for name in way[:2]}
    others = {cell.claim for cell in cells} - {"POL-1", ""}
    unclosed = {seat.pod for seat in seats if seat.member} - names
    return None if others or unclosed else closed


def rows(of_default: Counter[Mutant], of_all: Counter[Mutant]) -> list[str]:
    """The table of docs/stories.md: how many stale data planes are shown, by how many stories."""
    counts = [
        Counter(min(times, TWICE) for times in seen.values()) for seen in (of_default, of_all)
    ]
    words = {TWICE: "two stories or more", 1: "one story", 0: "no story"}
    return [f"| {word} | {counts[0][by]} | {counts[1][by]} |" for by, word in words.items()]


def main() -> None:
    of_all = seen_by(committed())
    print(f"{len(MUTANTS)} stale data planes, shown by: of the default run, of all that ship")
    print(*rows(seen_by(default()), of_all), sep="\n")
    for mutant, times in of_all.items():
        if not times:
            print(f"not shown: {mutant}")


if __name__ == "__main__":
    main()
