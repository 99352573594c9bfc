"""A small lab, and a run's way of changing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conformance.journal import Journal, Journalled
from conformance.kube.access import from_kubeconfig
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import Ownership
from tests.lab.lab_process import RunningLab, running_lab

RUN = Ownership("j1", "gw0")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(tmp_path_factory.mktemp("lab"), "--profile", "small") as one:
        yield one


@pytest.fixture(scope="module")
def kube(lab: RunningLab) -> Iterator[Kube]:
    client = Kube(from_kubeconfig(lab.kubeconfig))
    yield client
    client.close()


@pytest.fixture
def journal(kube: Kube) -> Iterator[Journal]:
    one = Journal(kube, RUN, within=5.0)
    yield one
    for entry in one.entries():
        one.mark(entry, "closed")
    one.remove()


@pytest.fixture
def begin(kube: Kube, journal: Journal) -> Callable[..., Journalled]:
    """A test's journalled changes, as each process of the run would begin them."""

    def begin(check: Callable[[], None] = lambda: None, **healers: Callable[[str, dict[str, Any]], None]) -> Journalled:
        return Journalled(Changes(kube, RUN), journal, healers, check)

    return begin
