# SPDX-License-Identifier: Apache-2.0
"""Runs random stories for a limited time. The shortest story in which the cluster differs from the
oracle is stored as a file."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import HypothesisException

from conformance import product
from conformance.errors import Nonconformance, SuiteError
from conformance.kube import manifest
from conformance.policy.oracle.oracle import Oracle
from conformance.policy.oracle.panics import panics
from conformance.policy.oracle.world import World
from conformance.policy.worlds import SPACES, surroundings
from conformance.stories.drawn import stories
from conformance.stories.in_story import InStory
from conformance.stories.model.story import Story

REPEATS = 2
"""The number of times that the first story with a difference is run again before it is made
shorter."""
MOST = 100_000
"""Maximum number of stories of a search, which no search reaches before its time is over."""


class TimeOver(BaseException):
    """The time of a search is over. The class is no Exception, since hypothesis would take an
    Exception for a difference."""


@dataclass
class Exploring:
    """A search through random stories."""

    first: InStory
    minutes: float
    seed: int
    folder: Path
    """The folder into which the shortest story is written."""
    _ran: int = 0
    _undecided: int = 0
    _end: float = 0.0
    _shortest: tuple[Story, Nonconformance] | None = None
    _repeated: int = 0
    _because: str = field(default="")
    _known: dict[str, Nonconformance | None] = field(default_factory=dict)
    """The result of each story, by the text of the story's file: hypothesis tries some stories
    again."""

    def holds(self, *, because: str) -> None:
        """Expect the cluster to behave as the oracle says in every random story.

        Raise the failure of the shortest story with a difference. The report has the story's file,
        and how often the difference occurred again.
        """
        self._because = because
        self._end = self.first.clock.monotonic() + 60 * self.minutes
        search = seeded(self.seed)(
            settings(
                max_examples=MOST,
                deadline=None,
                database=None,
                verbosity=Verbosity.quiet,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
                report_multiple_bugs=False,
            )(given(stories())(self._try))
        )
        # differences are stored when they are found, so these errors need no report
        with suppress(Nonconformance, HypothesisException, TimeOver):
            search()
        sink = self.first.context.sink
        sink.record("random stories", self._ran)
        sink.record("random stories without verdict", self._undecided)
        if self._shortest:
            story, failed = self._shortest
            failed.add_note(f"repeats  {self._repeated} of {REPEATS}, seed {self.seed}")
            failed.add_note(f"story\n{written(story)}")
            raise failed

    def _try(self, story: Story) -> None:
        clock = self.first.clock
        if clock.monotonic() > self._end:
            raise TimeOver
        if self._ends_felix(story):
            return
        text = written(story)
        if text not in self._known:
            self._ran += 1
            self._known[text] = self._run(story)
            self.first.context.sink.tell(
                f"{self._ran} stories, {self._undecided} without verdict, seed {self.seed}"
            )
        failed = self._known[text]
        if failed is None:
            return
        if self._shortest is None:
            self._repeated = sum(self._run(story) is not None for _ in range(REPEATS))
            # to make the story shorter may take as long as the search took
            searched = clock.monotonic() - (self._end - 60 * self.minutes)
            self._end = clock.monotonic() + searched
        self._keep(story, failed)
        raise failed

    def _run(self, story: Story) -> Nonconformance | None:
        """Return the difference that a story shows; None: everything was as expected, or the story
        had no verdict."""
        try:
            replace(self.first, story=story, world=story.world, replay=self._replay).holds(
                because=self._because
            )
        except Nonconformance as failed:
            return failed
        except SuiteError as error:
            self._undecided += 1
            self.first.context.sink.tell(f"no verdict about a story: {error}".splitlines()[0])
        return None

    def _ends_felix(self, story: Story) -> bool:
        """Return whether a story would end Felix on a Windows node: some policies make some
        releases of Felix end."""
        seats = self.first.ground.seats
        spaces = {space: seats.namespaces[space] for space in SPACES}
        for scene in story.scenes():
            objects = [
                *surroundings(scene.world, seats.seats, spaces),
                *scene.world.filled(seats.seats, spaces),
            ]
            oracle = Oracle(World(objects), objects)
            if any(panics(oracle, pod) for pod in oracle.world.pods.values()):
                return True
        return False

    @property
    def _file(self) -> Path:
        return self.folder / "story.yaml"

    @property
    def _replay(self) -> str:
        return f"{product.command()} --story={self._file}"

    def _keep(self, story: Story, failed: Nonconformance) -> None:
        """Store a story with a difference in place of the previous one; hypothesis finds simpler
        and simpler stories."""
        self._shortest = (story, failed)
        text = written(story)
        self._file.write_text(text, encoding="utf-8")
        sink = self.first.context.sink
        sink.attach("shortest story", text)
        sink.record("the difference came again", f"in {self._repeated} of {REPEATS} repeats")
        sink.tell(
            f"a difference (in {self._repeated} of {REPEATS} repeats) after {len(story.events)} "
            "events: "
            f"{self._replay}"
        )


def written(story: Story) -> str:
    """Return a story in the form of its file."""
    return manifest.dump(
        [
            {
                "claim": story.world.claim,
                "objects": list(story.world.objects),
                "events": [event.told for event in story.events],
            }
        ]
    )
