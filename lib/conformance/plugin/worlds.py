# SPDX-License-Identifier: Apache-2.0
"""Tests of worlds of policies: one for each world that ships, or for the file or folder that ``--world`` names.

Of several workers two run them: each that does makes pods of its own for them, three on every covered node.
"""

from collections.abc import Generator
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

FILE = "policy/test_worlds.py"
"""Where every test marked with ``each_world`` is: the process that deals tests out knows their names alone."""
SEATED = 2
"""Workers that run worlds.  On a lab with two cores all of them cost 100 s of wall by six workers, and 8 s by two
(docs/performance.md); on a cluster they are the two that issue 28 has in mind."""


class Dealer(LoadScheduling):  # type: ignore[misc]  # xdist has no types
    """Deals tests of worlds to the first workers alone, before all others, since exclusive tests wait for their end."""

    def schedule(self) -> None:
        super().schedule()
        if (
            self.collection
        ):  # of few tests every worker was offered one, which it keeps until it has another
            for node in self.nodes:
                self.check_schedule(node)

    def _send_tests(self, node: WorkerController, num: int) -> None:
        assert self.collection is not None  # xdist deals no test before
        worlds = [one for one in self.pending if f"{FILE}::" in self.collection[one]]
        others = [one for one in self.pending if one not in worlds]
        seated = [one for one in self.nodes if not one.shutting_down][:SEATED]
        dealt = ([*worlds, *others] if node in seated else others)[:num]
        self.pending[:] = [one for one in self.pending if one not in dealt]
        self.node2pending[node].extend(dealt)
        if dealt:
            node.send_runtest_some(dealt)
        elif not self.node2pending[node][
            1:
        ]:  # it keeps its last test back until it is told that no other one comes
            node.shutdown()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScheduling | None:
    """Who deals tests out, unless the user chose another distribution."""
    return Dealer(config, log) if state.awake(config) and config.option.dist == "load" else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that is marked with ``each_world`` its worlds, with the claims of each."""
    mark = metafunc.definition.get_closest_marker("each_world")
    if mark is None or not state.awake(metafunc.config):
        return
    edits = mark.kwargs["edits"]
    named = metafunc.config.option.world
    try:
        several = worlds_in(Path(named).resolve()) if named else shipped(edits=edits)
    except UsageProblem as problem:
        raise pytest.UsageError(str(problem)) from None
    metafunc.parametrize(
        "world",
        [_parameter(one) for one in several if bool(one.world.then) is edits],
        indirect=True,
    )


@pytest.hookimpl(wrapper=True)  # before the judge reads what each test verifies
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, object, object]:
    """Leave out the test for which ``--world`` names none: that of edits, or of worlds at rest."""
    items[:] = [
        one
        for one in items
        if not (one.get_closest_marker("each_world") and "[NOTSET]" in one.nodeid)
    ]
    return (yield)


def _parameter(one: WorldFile) -> ParameterSet:
    claims = (one.world.claim, *one.world.beside)
    tiers = any(obj["kind"] == "Tier" for obj in one.world.objects)
    applies = {"calico": ">=3.29"} if tiers else None  # Windows has none before
    marks = [verifies(claim, part=one.part, provisional=True, applies=applies) for claim in claims]
    return pytest.param(one, marks=marks, id=one.world.name)
