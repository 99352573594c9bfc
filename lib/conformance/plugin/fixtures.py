"""What tests ask for by name.  The place where the judge's parts are put together for them; nothing is decided here."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.errors import EnvironmentLacks
from conformance.model.facts import Facts
from conformance.plugin import state
from conformance.plugin.judge import PLANNED, recorder
from conformance.plugin.recorder import Recorder
from conformance.plugin.rundir import RunDirectory
from conformance.report.attach import Attachments
from conformance.report.diagnostics import Diagnostics
from conformance.settings import Settings


@pytest.fixture(scope="session")
def settings(pytestconfig: pytest.Config) -> Settings:
    """What the run was told, timings included."""
    return state.of(pytestconfig).settings


@pytest.fixture(scope="session")
def facts(pytestconfig: pytest.Config) -> Facts:
    """What was found out about the cluster, once, by the controller."""
    found = state.of(pytestconfig).facts
    if found is None:
        raise pytest.UsageError("facts were asked for in a run that has no cluster")
    return found


@pytest.fixture(scope="session")
def run_directory(pytestconfig: pytest.Config) -> RunDirectory:
    """What the processes of the run share."""
    directory = state.of(pytestconfig).run
    assert directory is not None  # no test runs without one
    return directory


@pytest.fixture(scope="session")
def attach(pytestconfig: pytest.Config) -> Attachments:
    """The door for attachments; they belong to the test that runs."""
    return state.of(pytestconfig).attachments


@pytest.fixture(scope="session")
def diagnostics(pytestconfig: pytest.Config) -> Diagnostics:
    """Where collectors of the failure bundle are registered."""
    return state.of(pytestconfig).diagnostics


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Any:
    """The one door to the cluster's API."""
    return state.of(pytestconfig).connect()


@pytest.fixture
def own_node(request: pytest.FixtureRequest) -> str:
    """Name of the node that the test has to itself, fixed in the plan: ``pods.at(own_node, "windows-server")``.

    Of a disruptive test, which has the whole cluster, the node on which it does what concerns one node.
    """
    turn = request.node.stash[PLANNED].turn
    if not turn.exclusive:
        raise pytest.UsageError(f"{request.node.nodeid} asks for a node of its own, and its claims are not exclusive")
    if not turn.node:
        raise EnvironmentLacks("no node is there to have to oneself", "run it on a cluster with one that takes pods")
    return str(turn.node)


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Recorder:
    """Figures worth keeping, and verdicts beyond passed and failed."""
    return recorder(request.node)
