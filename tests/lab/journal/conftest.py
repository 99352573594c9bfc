# SPDX-License-Identifier: Apache-2.0
"""A small lab, and the means by which a run changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conformance.journal import Journal, Journalled, restorable
from conformance.journal.restorable import Row
from conformance.kube.access import from_kubeconfig
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import Ownership
from tests.lab.lab_process import RunningLab, running_lab

RUN = Ownership("j1", "gw0")
TEXT, VNI = '"[^"]*"', "[1-9][0-9]{0,7}"
ROWS = (
    Row(
        what='"patch","","projectcalico.org/v3","FelixConfiguration",null,"default"',
        fields={
            ("spec", "vxlanVNI"): (f"absent|{VNI}", f"absent|{VNI}"),
            ("spec", "logSeverityScreen"): (f"absent|{TEXT}", TEXT),
            ("metadata", "annotations", "example.org/a"): (f"absent|{TEXT}", TEXT),
            ("metadata", "annotations"): ("absent", ".*"),
        },
    ),
    Row(what='"create","","v1","ConfigMap","kube-system","made"', by_hand="remove it"),
    Row(
        what='"procedure","(heal|breaks)","v1","Node",null,"NAME"',
        arguments=".*",
        by_hand="heal it",
    ),
)
"""Changes in addition to the suite's own, so that each kind of entry in the journal can be
tried."""


@pytest.fixture
def more_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restorable, "ROWS", (*ROWS, *restorable.ROWS))


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
    """Return a function that begins journalled changes, as each process of a run does."""

    def begin(
        check: Callable[[], None] = lambda: None, **healers: Callable[[str, dict[str, Any]], None]
    ) -> Journalled:
        return Journalled(Changes(kube, RUN), journal, healers, check)

    return begin
