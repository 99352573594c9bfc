# SPDX-License-Identifier: Apache-2.0
"""Choose stories, so that two stories show each stale data plane.

Stories are composed at random from the worlds and events of ``story-cast.yaml``; events of classes
that few stories show are preferred. Again and again, the story that shows most per second is kept.
The same seed chooses the same stories.

``python -m tests.worlds.story_chooser FOLDER`` writes the stories that are missing beside the
committed ones.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from conformance.kube import manifest
from conformance.policy.oracle import fields
from conformance.policy.worlds import World
from conformance.stories.model.lives import ONE_OF, TURNS
from conformance.stories.model.story import LONGEST, Event, Story
from tests import fast_yaml
from tests.unit.conformance.stories.test_classes import TABLE
from tests.worlds.story_mutants import (
    TWICE,
    Mutant,
    Obj,
    closed_in,
    committed,
    seen_by,
    showing,
    shown,
)  # fmt: skip

CAST = fast_yaml.load(Path(__file__).with_name("story-cast.yaml").read_text(encoding="utf-8"))
FEWEST = 3
COMPOSED = 5
"""The number of composed stories from which the best is kept."""
SEED = 1
START = 5.0
"""s. The time on a lab before a story's first event and after its last event."""
SECONDS = {one.name: one.seconds for one in TABLE.classes}
CHOSEN = "# Chosen: "
"""The beginning of the first line of a chosen story."""
NAMED = 3
"""The number of events in a file's name."""


class Composed(NamedTuple):
    """A story of the cast, with its events as they are written there."""

    story: Story
    happens: tuple[Obj, ...] = ()
    closed: object = None
    """The paths that are closed after the last event."""

    @property
    def seconds(self) -> float:
        return START + sum(SECONDS[one["shows"]] for one in self.happens)

    @property
    def text(self) -> str:
        """Return the text of the story's file."""
        words = "; ".join(one["words"] for one in self.happens)
        whole = {
            "claim": self.story.world.claim,
            "objects": list(self.story.world.objects),
            "events": [event.told for event in self.story.events],
        }
        # copied, since YAML would mark objects that the cast shares
        plain = json.loads(json.dumps(whole))
        return f"{CHOSEN}{words}.\n{manifest.dump([plain])}"

    def upto(self, events: int) -> Composed:
        return Composed(
            Story(self.story.world, self.story.events[:events]), self.happens[:events]
        )  # fmt: skip


def told(given: Obj, objects: Sequence[Obj]) -> Event | None:
    """Return an event of the cast in the form of a story; None: the object that it edits does not
    exist."""
    if "edit" not in given:
        return Event({key: given[key] for key in ("put", "gone", "labels", "pods") if key in given})
    for obj in objects:
        if fields.label(obj) == given["edit"]:
            return Event({"put": {**obj, "spec": {**obj["spec"], **given["spec"]}}})
    return None


def longer(begun: Composed, given: Obj) -> Composed | None:
    """Return a story with one more event; None: the event cannot happen there, or shows nothing."""
    *earlier, last = begun.story.scenes()
    event = told(given, last.world.objects)
    if last.members == "ending" and given.get("pods") != "gone":
        return None  # these pods answer only for their grace period
    if event is None or (event.pods and last.members not in TURNS[event.pods].after):
        return None
    story = Story(begun.story.world, (*begun.story.events, event))
    if {one.pods for one in story.events} >= ONE_OF:
        return None
    ever = {fields.label(obj) for scene in (*earlier, last) for obj in scene.world.objects}
    if TABLE.classes_of(event, last.world.objects, ever) != {given["shows"]}:
        return None
    *_, now = story.scenes()
    closed = closed_in(now)
    if closed is None or (not event.pods and closed == begun.closed):
        return None
    return Composed(story, (*begun.happens, given), closed)


def composed(random: Random, missing: Counter[str]) -> Composed:
    """Return a story with the maximum number of events. ``missing``: for each class, how many of
    its mutants are not shown twice yet."""
    whole = random.choice(CAST["worlds"])
    begun = Story(World("chosen", "POL-1", tuple(whole["objects"])), ())
    found = Composed(begun, closed=closed_in(next(begun.scenes())))
    while len(found.happens) < LONGEST:
        events = CAST["events"]
        weights = [1 + missing[one["shows"]] / SECONDS[one["shows"]] for one in events]
        for _ in events:
            (place,) = random.choices(range(len(events)), weights)
            if more := longer(found, events[place]):
                found = more
                break
            weights[place] = 0
        else:
            break
        missing = missing - Counter({events[place]["shows"]: missing[events[place]["shows"]] // 2})
    return found


def best(random: Random, seen: Counter[Mutant]) -> tuple[Composed, int]:
    """Return, of the stories that are composed now, the one that shows most per second, and how
    much it shows."""
    missing = Counter(mutant.event for mutant, times in seen.items() if times < TWICE)
    found: list[tuple[float, int, Composed]] = []
    for _ in range(COMPOSED):
        one = composed(random, missing)
        for events, mutants in enumerate(showing(one.story)):
            if events >= FEWEST:
                gain = sum(seen[mutant] < TWICE for mutant in mutants)
                part = one.upto(events)
                found.append((gain / part.seconds, gain, part))
    _, gain, chosen = max(found, key=lambda one: one[0])
    return chosen, gain


def choose(seen: Counter[Mutant], seed: int = SEED) -> list[Composed]:
    """Return stories until no further story shows more; each of them is needed."""
    random = Random(seed)
    chosen: list[Composed] = []
    gain = 1
    while gain and any(times < TWICE for times in seen.values()):
        one, gain = best(random, seen)
        if gain:
            print(f"{one.seconds:.0f} s, {gain} more: {one.text.splitlines()[0]}", flush=True)
            chosen.append(one)
            seen.update(shown(one.story))
    for one in [*chosen]:
        mutants = shown(one.story)
        if all(seen[mutant] > TWICE for mutant in mutants):
            chosen.remove(one)
            seen.subtract(mutants)
    return chosen


def names(chosen: Sequence[Composed]) -> list[str]:
    """Return the name of each story's file, made of those events that the fewest other stories
    have."""
    times = Counter(name for one in chosen for name in {given["name"] for given in one.happens})
    found = []
    for one in chosen:
        events = list(dict.fromkeys(given["name"] for given in one.happens))
        rare = sorted(events, key=lambda name: times[name])[:NAMED]
        *first, last = [name for name in events if name in rare]
        found.append(f"{', '.join(first)} and {last}".replace(",", "").replace(" ", "-").lower())
    return found


def main(folder: str) -> None:
    chosen = choose(seen_by(committed()))
    for name, one in zip(names(chosen), chosen, strict=True):
        (Path(folder) / f"{name}.yaml").write_text(one.text, encoding="utf-8")
        print(f"{one.seconds:.0f} s  {name}: {len(one.happens)} events")


if __name__ == "__main__":
    main(sys.argv[1])
