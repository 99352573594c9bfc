# SPDX-License-Identifier: Apache-2.0
"""Stale data planes over time: from an event of a class on, the nodes of a system forget something.

No planted bug is asked, and no cluster: a story shows a stale data plane in which the oracle
expects something else of at least one cell, after such an event, than it would if the ends on that
system had forgotten it.

``python -m tests.worlds.story_mutants`` prints which are shown by how many committed stories.
``python -m tests.worlds.story_mutants NUMBER FOLDER`` draws so many stories, and writes those into
the folder that show what is not yet shown twice.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
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


def _is_policy(obj: Obj) -> bool:
    return str(obj["kind"]).endswith("NetworkPolicy")


def _without(drop: Callable[[Obj], bool]) -> Callable[[Objects], list[Obj]]:
    return lambda objects: [obj for obj in objects if not drop(obj)]


def _of_direction(direction: str) -> Callable[[Objects], list[Obj]]:
    """Policies are for the other direction alone."""

    def read(objects: Objects) -> list[Obj]:
        found = []
        for obj in objects:
            if not _is_policy(obj):
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
            if obj["kind"] == kind
            and (not members or obj["metadata"]["name"].startswith("member-"))
            else obj
            for obj in objects
        ]

    return read


FORGETS: dict[str, Callable[[Objects], list[Obj]]] = {
    "all policies": _without(_is_policy),
    "policies for ingress": _of_direction("Ingress"),
    "policies for egress": _of_direction("Egress"),
    "Calico's policies": _without(
        lambda obj: _is_policy(obj) and str(obj["apiVersion"]).startswith("projectcalico")
    ),
    "Kubernetes' policies": _without(
        lambda obj: _is_policy(obj) and str(obj["apiVersion"]).startswith("networking")
    ),
    "NetworkSets": _without(lambda obj: str(obj["kind"]).endswith("NetworkSet")),
    "labels of namespaces": _unlabelled("Namespace"),
    "labels of members": _unlabelled("Pod", members=True),
    "labels of accounts": _unlabelled("ServiceAccount"),
}
ITSELF = "the event itself"
"""What was written or deleted is as before."""
MUTANTS = [
    Mutant(forgets, one.name, system)
    for forgets in (*FORGETS, ITSELF)
    for one in TABLE.classes
    for system in SYSTEMS
    if forgets != ITSELF or one.word != "pods"
]


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


def _differs(right: Sequence[Cell], wrong: Sequence[Cell], system: str) -> bool:
    """Whether a cell is otherwise where the ends on a system decide as ``wrong`` has them."""
    for cell, other in zip(right, wrong, strict=True):
        if Verdict.NOT_SAID in (cell.expected, other.expected):
            continue
        ends = (cell.source, cell.destination)
        decided: list[Decision] = [
            other.decisions[place] if end.os == system else cell.decisions[place]
            for place, end in enumerate(ends)
        ]
        if of_way(decided) is not cell.expected:
            return True
    return False


def shown(story: Story) -> frozenset[Mutant]:
    """The stale data planes that a story shows."""
    found: set[Mutant] = set()
    happened: set[str] = set()
    past: list[Obj] = []
    for scene, classes in events_of(story):
        happened |= classes
        seats = scene.seats(ALL)
        objects = objects_of(scene, seats)
        right = list(worlds.cells(objects, seats, "POL-1"))
        for forgets, read in FORGETS.items() if happened else ():
            mutated = read(objects)
            if mutated == objects:
                continue
            wrong = list(worlds.cells(mutated, seats, "POL-1"))
            for system in SYSTEMS:
                if _differs(right, wrong, system):
                    found.update(Mutant(forgets, event, system) for event in happened)
        if scene.event and not scene.event.pods:
            wrong = list(worlds.cells(past, seats, "POL-1"))
            for system in SYSTEMS:
                if _differs(right, wrong, system):
                    found.update(Mutant(ITSELF, event, system) for event in classes)
        past = objects
    return frozenset(found & set(MUTANTS))


def seen_by(stories: Iterable[Story]) -> Counter[Mutant]:
    """Each stale data plane with the number of stories that show it."""
    found: Counter[Mutant] = Counter(dict.fromkeys(MUTANTS, 0))
    for one in stories:
        found.update(shown(one))
    return found


def committed() -> list[Story]:
    """The stories that ship."""
    return [file.story for folder in (FOLDER, FOLDER / "all") for file in stories_in(folder)]


def fits(story: Story) -> bool:
    """Whether a drawn story may be committed: each scene closes a path of each member that is
    there, each edit changes what is open, and no Windows Felix ends by it."""
    last: object = None
    for scene in story.scenes():
        seats = scene.seats(ALL)
        objects = objects_of(scene, seats)
        oracle = Oracle(Pods(objects), objects)
        if any(panics(oracle, pod) for pod in oracle.world.pods.values()):
            return False
        cells = list(worlds.cells(objects, seats, "POL-1"))
        closed = {
            (cell.source.pod, cell.destination.pod, cell.protocol, cell.port)
            for cell in cells
            if cell.expected is Verdict.DENIED
        }
        names = {name for way in closed for name in way[:2]}
        if {cell.claim for cell in cells} - {"POL-1", ""}:
            return False
        if not {seat.pod for seat in seats if seat.member} <= names:
            return False
        if scene.event and not scene.event.pods and closed == last:
            return False
        last = closed
    return True


class _Enough(BaseException):
    """As many stories were drawn as were asked for; no Exception, which hypothesis would keep."""


def drawn(number: int, seed: int = 1) -> list[Story]:
    """So many drawn stories that may be committed."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    from conformance.stories.drawn import stories

    found: dict[str, Story] = {}

    @seeded(seed)
    @settings(
        max_examples=60 * number, deadline=None, database=None, phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(stories())
    def take(story: Story) -> None:
        if str(story) not in found and fits(story):
            found[str(story)] = story
        if len(found) >= number:
            raise _Enough

    with suppress(_Enough):
        take()
    return list(found.values())


def choose(stories: Sequence[Story], seen: Counter[Mutant]) -> list[Story]:
    """The fewest of these stories, one after the other, until nothing more is shown twice."""
    shows = {place: shown(one) for place, one in enumerate(stories)}
    chosen: list[Story] = []

    def gain(place: int) -> int:
        return sum(seen[mutant] < TWICE for mutant in shows[place])

    while shows and gain(best := max(shows, key=gain)):
        seen.update(shows.pop(best))
        chosen.append(stories[best])
    return chosen


def main(number: int = 0, folder: str = "") -> None:
    seen = seen_by(committed())
    if number:
        from conformance.stories.exploring import written

        for place, one in zip(count(1), choose(drawn(number), seen), strict=False):
            classes = sorted(set().union(*(names for _, names in events_of(one))))
            text = (
                f"# Drawn, and chosen by stale data planes: {', '.join(classes)}.\n{written(one)}"
            )
            (Path(folder) / f"chosen-{place:02}.yaml").write_text(text, encoding="utf-8")
    counts = Counter(min(times, TWICE) for times in seen.values())
    print(f"{len(MUTANTS)} stale data planes: {counts[2]} shown twice, {counts[1]} once")
    for mutant, times in seen.items():
        if not times:
            print(f"not shown: {mutant}")


if __name__ == "__main__":
    main(*(int(sys.argv[1]), sys.argv[2]) if len(sys.argv) > 1 else ())
