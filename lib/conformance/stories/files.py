# SPDX-License-Identifier: Apache-2.0
"""Stories as files: shipped, or named by the user."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from conformance import product
from conformance.kube import manifest
from conformance.policy import worlds
from conformance.policy.worlds import World
from conformance.stories.model import story
from conformance.stories.model.story import Story

FOLDER = product.root() / "suites" / "policy" / "stories"


@dataclass(frozen=True)
class StoryFile:
    """A story and the file that describes it."""

    story: Story
    path: Path

    @property
    def world(self) -> World:
        """Return the story's world before its first event."""
        return self.story.world

    @property
    def part(self) -> str:
        """Return the part of its claims that the story decides: ``story: who comes back``."""
        return f"story: {self.world.name.replace('-', ' ')}"

    @property
    def whole_cluster(self) -> bool:
        """Return whether the story has a cluster-scoped object."""
        return any(
            not obj["metadata"].get("namespace")
            for scene in self.story.scenes()
            for obj in scene.world.objects
        )

    @property
    def labels_namespaces(self) -> bool:
        """Return whether the story changes labels of namespaces."""
        return any(
            space in scene.world.relabelled
            for scene in self.story.scenes()
            for space in worlds.SPACES
        )

    @property
    def replay(self) -> str:
        """Return the command that runs the story again."""
        return product.replay("story", self.path)


def stories_in(path: Path) -> list[StoryFile]:
    """Return the stories of a folder by name, or the story of a file. Raise UsageProblem."""
    return [read_story(file) for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])]


@cache
def read_story(path: Path) -> StoryFile:
    """Return the story of a file.  Raise UsageProblem."""
    return StoryFile(story.read(path.stem, manifest.read_one(path, "story")), path)
