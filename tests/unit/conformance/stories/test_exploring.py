# SPDX-License-Identifier: Apache-2.0
"""A search by random stories keeps the shortest story with a difference, and how often the
difference occurred again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, Nonconformance
from conformance.expect.context import Context, Sink
from conformance.policy.worlds import World
from conformance.stories import files
from conformance.stories.exploring import REPEATS, Exploring, written
from conformance.stories.model.story import NOTHING, Story
from tests.worlds.seats import NAMESPACES, SEATS

pytest.importorskip("hypothesis")
PER_STORY = 1.0
"""s.  What a story takes."""
SLOW = 30.0
"""s.  What one takes that shows a difference, in a test of how long that may go on."""


@dataclass
class Clock:
    now: float = 0.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class Told:
    """Stands in for a story on a cluster: ``fails`` says what it shows."""

    fails: Callable[[Story], Exception | None]
    sink: Sink = field(default_factory=Sink)
    clock: Clock = field(default_factory=Clock)
    story: Story = NOTHING
    world: World = NOTHING.world
    replay: str = ""
    told: list[Story] = field(default_factory=list)

    @property
    def context(self) -> Context:
        return Context(claims=("POL-1",), sink=self.sink)

    @property
    def ground(self) -> Any:
        return SimpleNamespace(seats=SimpleNamespace(seats=SEATS, namespaces=NAMESPACES))

    def holds(self, *, because: str) -> None:
        self.told.append(self.story)
        self.clock.now += PER_STORY
        if error := self.fails(self.story):
            raise error


def search(folder: Path, fails: Callable[[Story], Exception | None], seconds: float = 30.0) -> Told:
    first = Told(fails)
    Exploring(first, seconds / 60, 7, folder).holds(because="so it is")  # type: ignore[arg-type]
    return first


def test_without_a_difference_it_lasts_as_long_as_was_said(tmp_path: Path) -> None:
    first = search(tmp_path, lambda told: None)
    assert first.clock.now == pytest.approx(31, abs=2)
    assert first.sink.recorded["random stories"] == len(first.told)
    assert first.sink.recorded["random stories without verdict"] == 0
    assert list(tmp_path.iterdir()) == []
    texts = list(map(written, first.told))
    assert len(set(texts)) == len(texts), "none is told twice"
    assert not any("&id" in text for text in texts), "a reader would have to look for the anchor"


def test_a_search_says_after_each_story_how_many_there_were(tmp_path: Path) -> None:
    said: list[str] = []

    class Terminal(Sink):
        def tell(self, line: str) -> None:
            said.append(line)

    first = Told(
        lambda told: EnvironmentBroken("late") if len(first.told) == 2 else None, sink=Terminal()
    )
    Exploring(first, 0.1, 7, tmp_path).holds(because="so it is")  # type: ignore[arg-type]
    assert said[0] == "1 stories, 0 without verdict, seed 7"
    assert said[-1] == f"{len(first.told)} stories, 1 without verdict, seed 7"


def test_the_shortest_story_with_a_difference_is_kept_as_a_file_that_runs(tmp_path: Path) -> None:
    first = Told(lambda told: None)

    def fails(told: Story) -> Exception | None:
        found = any(one.pods == "again" for one in told.events) and first.clock.now > 100
        return Nonconformance("a path is open after again") if found else None

    first.fails = fails
    with pytest.raises(Nonconformance, match="a path is open after again") as caught:
        Exploring(first, 10.0, 7, tmp_path).holds(because="so it is")  # type: ignore[arg-type]
    kept = files.read_story(tmp_path / "story.yaml").story
    assert len(kept.events) == 3, "no drawn story is shorter"
    assert "again" in [one.pods for one in kept.events]
    notes = "\n".join(caught.value.__notes__)
    assert f"repeats  {REPEATS} of {REPEATS}, seed 7" in notes
    assert "events:" in notes


def test_a_difference_that_does_not_come_again_is_a_verdict_all_the_same(tmp_path: Path) -> None:
    once = iter([Nonconformance("a path was open once")])
    with pytest.raises(Nonconformance, match="a path was open once") as caught:
        search(tmp_path, lambda told: next(once, None))
    assert f"repeats  0 of {REPEATS}" in "\n".join(caught.value.__notes__)
    assert (tmp_path / "story.yaml").exists()


def test_making_it_shorter_takes_no_longer_than_the_search_did(tmp_path: Path) -> None:
    first = Told(lambda told: None)
    differs_at: list[float] = []

    def fails(told: Story) -> Exception | None:
        if first.clock.now < 20:
            return None
        first.clock.now += SLOW
        differs_at.append(first.clock.now)
        return Nonconformance("open")

    first.fails = fails
    with pytest.raises(Nonconformance):
        Exploring(first, 10.0, 7, tmp_path).holds(because="so it is")  # type: ignore[arg-type]
    searched = differs_at[REPEATS]
    assert first.clock.now <= 2 * searched + SLOW + PER_STORY


def test_a_story_that_could_not_be_told_is_counted_and_shows_nothing(tmp_path: Path) -> None:
    first = search(tmp_path, lambda told: EnvironmentBroken("a pod is gone"))
    assert first.sink.recorded["random stories without verdict"] == len(first.told) > 0


def test_peers_of_drawn_policies_by_address_are_pods_of_the_other_namespace() -> None:
    """A policy stands in namespace a: a peer there is admitted by other fields of other peers."""
    from conformance.stories import drawn

    fields = {
        name: [peer[name] for peer in drawn.PEERS if name in peer] for name in ("nets", "notNets")
    }
    assert fields == {"nets": [["${b.linux}/32"]], "notNets": [["${b.windows}/32"]]}
    blocks = [peer["ipBlock"] for peer in drawn.KUBERNETES_PEERS if "ipBlock" in peer]
    assert blocks == [{"cidr": "${b.linux}/32"}]
