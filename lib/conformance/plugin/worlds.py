# SPDX-License-Identifier: Apache-2.0
"""Tests of worlds and stories of policies: one test for each packaged world or story, or for each
file of ``--world`` and ``--story``.

At most two workers run tests of worlds, since each of these workers makes three pods on every
covered node.
"""

from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from xdist.scheduler import LoadScheduling
from xdist.workermanage import WorkerController

from conformance.enforcement.worlds import WorldFile, shipped, worlds_in
from conformance.errors import UsageProblem
from conformance.marks import verifies
from conformance.plugin import state
from conformance.schedule.order import order
from conformance.stories.files import FOLDER, StoryFile, stories_in

FILE = "policy/test_worlds.py"
STORIES = "policy/test_stories.py"
"""Names of the files with tests marked ``each_world`` or ``each_story``; the process that
distributes tests knows only names."""
SEATED = 2
"""The number of workers that run worlds. On a lab with two cores, all worlds add 100 s to a run if
six workers run worlds, and 8 s if two workers do (docs/performance.md)."""


LONGEST = 24 * 60
"""The maximum number of minutes that random stories may take."""


class Dealer(LoadScheduling):  # type: ignore[misc]  # xdist has no types
    """A scheduler that gives tests of worlds only to the first workers. These workers run worlds
    right after the tests of ``--quick``, since exclusive tests wait until all worlds have ended. A
    single worker runs worlds last."""

    def schedule(self) -> None:
        super().schedule()
        if (
            self.collection
        ):  # if there are few tests, xdist sends each worker one, and the worker waits for a second
            for node in self.nodes:
                self.check_schedule(node)

    def _send_tests(self, node: WorkerController, num: int) -> None:
        dealt = self._choice(node)[:num]
        self.pending[:] = [index for index in self.pending if index not in dealt]
        self.node2pending[node].extend(dealt)
        if dealt:
            node.send_runtest_some(dealt)
        elif not self.node2pending[node][
            1:
        ]:  # a worker runs its last test only when it knows that no further test comes
            node.shutdown()

    def _choice(self, node: WorkerController) -> list[int]:
        """Return the tests that a worker may get, in the order in which it gets them."""
        assert self.collection is not None  # xdist sends no test before the collection
        active = [node for node in self.nodes if not node.shutting_down]
        if len(active) <= SEATED:
            return list(self.pending)
        files = (f"{FILE}::", f"{STORIES}::")
        worlds = [
            index for index in self.pending if any(file in self.collection[index] for file in files)
        ]
        others = [index for index in self.pending if index not in worlds]
        if node not in active[:SEATED]:
            return others
        first = [index for index in others if order().is_quick(self.collection[index])]
        return list(dict.fromkeys((*first, *worlds, *others)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScheduling | None:
    """Return the scheduler of worlds, unless the user chose another distribution."""
    return Dealer(config, log) if state.awake(config) and config.option.dist == "load" else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test marked ``each_world`` or ``each_story`` with the worlds or stories, and
    the claims of each."""
    if not state.awake(metafunc.config):
        return
    if metafunc.definition.get_closest_marker("each_story"):
        _generate_stories(metafunc)
    mark = metafunc.definition.get_closest_marker("each_world")
    if mark is None:
        return
    edits = mark.kwargs["edits"]
    named = metafunc.config.option.world
    try:
        files = worlds_in(Path(named).resolve()) if named else shipped(edits=edits)
    except UsageProblem as problem:
        raise pytest.UsageError(str(problem)) from None
    metafunc.parametrize(
        "world",
        [_parameter(file) for file in files if bool(file.world.then) is edits],
        indirect=True,
    )


@pytest.hookimpl(wrapper=True)  # runs first, since the judge then reads the claims of each test
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, object, object]:
    """Leave out a test for which ``--world`` names no world: the test of edits, or the test of
    worlds without edits."""
    items[:] = [
        item
        for item in items
        if "[NOTSET]" not in item.nodeid
        or not any(map(item.get_closest_marker, ("each_world", "each_story")))
    ]
    return (yield)


def _generate_stories(metafunc: pytest.Metafunc) -> None:
    option = metafunc.config.option
    named = option.story
    if option.explore is not None:
        metafunc.parametrize("story", [_random(option)], indirect=True)
        return
    try:
        files = stories_in(Path(named).resolve() if named else FOLDER)
    except UsageProblem as problem:
        raise pytest.UsageError(str(problem)) from None
    metafunc.parametrize("story", [_parameter(file) for file in files], indirect=True)


def _random(option: Any) -> ParameterSet:
    """Return the parameter of random stories; it has no file."""
    if not 0 < option.explore <= LONGEST:
        raise pytest.UsageError(
            f"--explore={option.explore:g}: expected minutes, more than 0 and at most {LONGEST}"
        )
    if find_spec("hypothesis") is None:
        raise pytest.UsageError(
            "--explore needs hypothesis: pip install 'calico-windows-conformance[explore]'"
        )
    if option.dry_run:
        raise pytest.UsageError(
            "--explore draws its stories during the run: there is nothing to print"
        )
    mark = verifies("POL-1", part="stories at random", provisional=True)
    return pytest.param(None, marks=[mark], id="explore")


def _parameter(file: WorldFile | StoryFile) -> ParameterSet:
    claims = (file.world.claim, *file.world.beside)
    tiers = any(obj["kind"] == "Tier" for obj in file.world.objects)
    applies = {"calico": ">=3.29"} if tiers else None  # earlier versions have no tiers on Windows
    marks = [verifies(claim, part=file.part, provisional=True, applies=applies) for claim in claims]
    return pytest.param(file, marks=marks, id=file.world.name)
