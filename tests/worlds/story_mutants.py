# SPDX-License-Identifier: Apache-2.0
"""Stale data planes over time: from an event of a class on, the nodes of one system miss a part of
the change.

Neither planted bugs nor a cluster are needed. A story shows a stale data plane if, after such an
event, the oracle expects another verdict on at least one cell when the ends on that system have
forgotten something.

``python -m tests.worlds.story_mutants`` prints how many are shown by the committed stories, and
which are not.  ``story_chooser.py`` composes stories that show more.
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
TWINS = tuple(
    Seat("a", system, f"{system}-1", f"twin-{system}", f"10.0.{number}.40", twin=True)
    for number, system in enumerate(SYSTEMS)
)
ALL = (*SEATS, *TWINS, *MEMBERS)


class Mutant(NamedTuple):
    """A stale data plane."""

    forgets: str
    event: str
    """The class of events after which it forgets."""
    os: str

    def __str__(self) -> str:
        return f"{self.os} forgets {self.forgets} when: {self.event}"


def _without(drop: Callable[[Obj], bool]) -> Callable[[Objects], list[Obj]]:
    return lambda objects: [obj for obj in objects if not drop(obj)]


def _of_direction(direction: str) -> Callable[[Objects], list[Obj]]:
    """Limit policies to the other direction."""

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
    """Treat members as unknown pods, while their peers still have their earlier addresses."""
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
"""A stale data plane keeps the addresses of pods that have ended, and does not learn those of their
successors."""
READDRESSED = (
    "pod made", "pod made again", "pod replaced", "pod has ended", "pod deleted or evicted",
    "pod before its containers",
)  # fmt: skip
SHARED = "the policies of the twin, as if they were the member's"
"""A stale data plane has one state for pods of the same policies, and drops it with one of them."""
OF_ONE = (
    "pod made again", "pod replaced", "pod has ended", "pod deleted or evicted", "pod ends slowly",
    "container restarts", "readiness", "labels of a pod",
)  # fmt: skip
"""The events of one of two pods with the same policies."""
ITSELF = "the event itself"
"""A stale data plane ignores the written or deleted object of the event."""
MUTANTS = [
    Mutant(forgets, one.name, system)
    for forgets in (*FORGETS, ITSELF)
    for one in TABLE.classes
    for system in SYSTEMS
    if forgets != ITSELF or one.word != "pods"
]
MUTANTS += [Mutant(ADDRESS, event, system) for event in READDRESSED for system in SYSTEMS]
MUTANTS += [Mutant(SHARED, event, system) for event in OF_ONE for system in SYSTEMS]
STALE = FORGETS | {ADDRESS: _unknown, SHARED: FORGETS["all policies"]}
"""The mutation of a scene's objects for each stale state."""
WRONG_AT: dict[str, Callable[[Seat], bool]] = {
    ADDRESS: lambda end: not end.member,
    SHARED: lambda end: end.twin,
}
"""The ends that decide by a stale state; without an entry: all ends."""
KNOWN = frozenset(MUTANTS)


def objects_of(scene: Scene, seats: Sequence[Seat]) -> list[Obj]:
    """Return all objects of a scene on the smallest cluster."""
    return [
        *worlds.surroundings(scene.world, seats, NAMESPACES),
        *scene.world.filled(ALL, NAMESPACES),
    ]


def events_of(story: Story) -> Iterator[tuple[Scene, set[str]]]:
    """Yield each scene with the classes of the event that led to it."""
    before: tuple[Obj, ...] = ()
    ever: set[str] = set()
    for scene in story.scenes():
        found = TABLE.classes_of(scene.event, before, ever) if scene.event else set()
        before = tuple(scene.world.objects)
        ever |= {fields.label(obj) for obj in before}
        yield scene, found


def _differs(
    right: Sequence[Cell],
    wrong: Sequence[Cell],
    system: str,
    wrong_at: Callable[[Seat], bool] = lambda end: True,
) -> bool:
    """Return whether the verdict on some cell changes if the ends on a system decide as in
    ``wrong``.

    ``wrong_at``: returns whether this holds for an end.
    """
    for cell, other in zip(right, wrong, strict=True):
        if Verdict.NOT_SAID in (cell.expected, other.expected):
            continue
        ends = (cell.source, cell.destination)
        decided: list[Decision] = [
            other.decisions[place] if end.os == system and wrong_at(end) else cell.decisions[place]
            for place, end in enumerate(ends)
        ]
        if of_way(decided) is not cell.expected:
            return True
    return False


def showing(story: Story) -> Iterator[frozenset[Mutant]]:
    """Yield the stale data planes that a story shows: first those before its first event, then
    those up to each further event."""
    found: set[Mutant] = set()
    happened: set[str] = set()
    past: list[Obj] = []
    for scene, classes in events_of(story):
        happened |= classes
        seats = scene.seats(ALL)
        objects = objects_of(scene, seats)
        right = list(worlds.cells(objects, seats, "POL-1"))
        for forgets, read in STALE.items() if happened else ():
            mutated = read(objects)
            if mutated == objects:
                continue
            wrong = list(worlds.cells(mutated, seats, "POL-1"))
            for system in SYSTEMS:
                if _differs(right, wrong, system, WRONG_AT.get(forgets, lambda end: True)):
                    found.update(Mutant(forgets, event, system) for event in happened)
        if scene.event and not scene.event.pods:
            wrong = list(worlds.cells(past, seats, "POL-1"))
            for system in SYSTEMS:
                if _differs(right, wrong, system):
                    found.update(Mutant(ITSELF, event, system) for event in classes)
        past = objects
        yield frozenset(found & KNOWN)


def shown(story: Story) -> frozenset[Mutant]:
    """Return the stale data planes that a story shows."""
    *_, found = showing(story)
    return found


def seen_by(stories: Iterable[Story]) -> Counter[Mutant]:
    """Map each stale data plane to the number of stories that show it."""
    found: Counter[Mutant] = Counter(dict.fromkeys(MUTANTS, 0))
    for one in stories:
        found.update(shown(one))
    return found


def committed() -> list[Story]:
    """Return the stories that are shipped."""
    return [*default(), *(file.story for file in stories_in(FOLDER / "all"))]


def default() -> list[Story]:
    """Return the stories of the default run."""
    return [file.story for file in stories_in(FOLDER)]


def closed_in(scene: Scene) -> frozenset[tuple[str, str, str, int]] | None:
    """Return the paths that a scene of a committable story closes; None if the story may not be
    committed.

    The scene must close a path of each existing member, decide nothing but its claim, and make no
    Windows Felix panic.
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
    """Return the table of docs/stories.md: the numbers of shown stale data planes and of
    stories."""
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
