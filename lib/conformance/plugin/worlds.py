"""Tests of worlds of policies: one for each world that ships, or for the file or folder that ``--world`` names."""

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from conformance.errors import UsageProblem
from conformance.marks import verifies
from conformance.plugin import state
from conformance.run.worlds import OnFile, in_folder, shipped


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that is marked with ``each_world`` its worlds, with the claims of each."""
    mark = metafunc.definition.get_closest_marker("each_world")
    if mark is None or not state.awake(metafunc.config):
        return
    edits, named = mark.kwargs["edits"], metafunc.config.option.world
    try:
        several = in_folder(Path(named).resolve()) if named else shipped(edits=edits)
    except UsageProblem as problem:
        raise pytest.UsageError(str(problem)) from None
    metafunc.parametrize("world", [_parameter(one) for one in several if bool(one.world.then) is edits], indirect=True)


@pytest.hookimpl(wrapper=True)  # before the judge reads what each test verifies
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, object, object]:
    """Leave out the test for which ``--world`` names none: that of edits, or of worlds at rest."""
    items[:] = [one for one in items if not (one.get_closest_marker("each_world") and "[NOTSET]" in one.nodeid)]
    return (yield)


def _parameter(one: OnFile) -> ParameterSet:
    claims, tiers = (one.world.claim, *one.world.beside), any(obj["kind"] == "Tier" for obj in one.world.objects)
    applies = {"calico": ">=3.29"} if tiers else None  # Windows has none before
    marks = [verifies(claim, part=one.part, provisional=True, applies=applies) for claim in claims]
    return pytest.param(one, marks=marks, id=one.world.name)
