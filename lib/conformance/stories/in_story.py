# SPDX-License-Identifier: Apache-2.0
"""A story on a cluster: makes each event happen, and then expects every pair of pods to be as the
oracle says."""

from collections.abc import Sequence
from dataclasses import dataclass

from conformance.stories.members import Members
from conformance.stories.model.story import Scene, Story
from conformance.worlds.cell_result import CellResult
from conformance.worlds.in_world import InWorld


@dataclass(frozen=True, eq=False, kw_only=True)
class InStory(InWorld):
    """A story, and the expected results after each of its events."""

    story: Story
    members: Members

    def holds(self, *, because: str) -> None:
        """Expect every pair of seats (the story's pods) to be as the oracle says, at rest and after
        each event.

        Raise Nonconformance with the event, the pair, the expectation, its rule and the
        observation; and the errors of worlds and events.
        """
        seats = self.ground.seats
        self.context.sink.keep(seats.taken())
        happen = {event.pods for event in self.story.events}
        self.members.last = "ending" in happen
        self.members.fail = "failed" in happen
        # set for each story, since a search runs many stories with the same members
        self.members.labels = self.story.world.relabelled
        seats.at_rest = False
        asked: list[CellResult] = []
        try:
            self.members.come()
            seats.meet_twins()
            self._at_rest("before the story")
            for scene in self.story.scenes():
                asked = self._after(scene, asked)
                if not all(result.outcome.held for result in asked):
                    break
            self._ask_again(scene.world, asked)
        finally:
            self.ground.clear()
            self.members.remove()
            seats.with_twins = False
        self._at_rest("after the story")
        seats.at_rest = True
        self._report(asked, f"{because} after {scene}", f"after {scene}: " if scene.event else "")

    def _after(self, scene: Scene, past: Sequence[CellResult]) -> list[CellResult]:
        """Carry out a scene's event, and probe every cell."""
        self.members.labels = scene.world.relabelled
        if scene.event and scene.event.pods:
            self.members.act(scene.event.pods)
            past = []  # the event may have given the members other pods and addresses
        return self._stage(scene.world, past, decides=True)
