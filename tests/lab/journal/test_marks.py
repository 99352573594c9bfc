# SPDX-License-Identifier: Apache-2.0
"""No mark stays on a node after its procedure, in whatever order requests are cut off or lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.errors import EnvironmentBroken
from conformance.facts.detect import detect
from conformance.journal import Healers, Journal, Journalled, Outcome, Restored
from conformance.journal.mark import marks_of
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.model.change import ObjectRef, PutBack
from conformance.settings import Settings, load_timings
from conformance.undo import dead_runs
from tests.lab.journal.conftest import RUN

pytestmark = pytest.mark.usefixtures("more_rows")
HEALED: Healers = {"heal": lambda run, arguments: None}


class OverLimit(BaseException):
    """The exception that a limit raises at any place in the main thread."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The memory that the processes of the run share."""
    return tmp_path


@pytest.fixture
def journal(kube: Kube, folder: Path) -> Iterator[Journal]:
    journal = Journal(kube, RUN, within=2.0, memory=folder)
    yield journal
    for entry in journal.entries():
        journal.mark(entry, "closed")
    journal.remove()


@pytest.fixture
def journalled(kube: Kube, journal: Journal) -> Journalled:
    return Journalled(Changes(kube, RUN), journal, HEALED, lambda: None)


@pytest.fixture
def node(kube: Kube) -> Iterator[ObjectRef]:
    """A node, without marks at the end."""
    (found, *_) = kube.objects("v1", "Node")
    node = ObjectRef(api_version="v1", kind="Node", name=found["metadata"]["name"])
    yield node
    gone = {name: None for _, name in marks_of(kube.get("v1", "Node", node.name))}
    Changes(kube, RUN).patch(node, {"metadata": {"annotations": gone}}, "a test", foreign=True)


@pytest.fixture
def marks(kube: Kube, node: ObjectRef) -> Callable[[], list[str]]:
    return lambda: [name for _, name in marks_of(kube.get("v1", "Node", node.name))]


@pytest.fixture
def end(kube: Kube, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], PutBack]:
    """Return the call by which the process that the user started reacts to the end of a worker."""
    timings = load_timings()
    timings = replace(timings, run=replace(timings.run, journal=2.0))
    settings = Settings(timings=timings, run_id=RUN.run, disruptive=True)
    facts = detect(kube, evidence="lab")
    monkeypatch.setattr(dead_runs, "healers_of", lambda *_: HEALED)
    monkeypatch.setattr(dead_runs, "_problem", lambda *_: "")
    return lambda worker: dead_runs.of_a_worker(
        kube, facts, settings, worker, process="", memory=folder, named_by=["--kubeconfig=k"]
    )


def _raise(error: BaseException) -> Callable[..., None]:
    def broken(*_: object, **__: object) -> None:
        raise error

    return broken


def removing_marks_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no mark be removed, as where the API server goes away just then."""
    real = Changes.patch

    def patch(
        changes: Changes,
        target: ObjectRef,
        body: dict[str, object],
        *more: object,
        **others: object,
    ) -> object:
        given = (body.get("metadata") or {}).get("annotations") or {}  # type: ignore[attr-defined]
        if target.kind == "Node" and None in given.values():
            raise EnvironmentBroken("the API server is away")
        return real(changes, target, body, *more, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(Changes, "patch", patch)


def outcomes(done: list[Restored]) -> list[Outcome]:
    return [each.outcome for each in done]


def test_a_mark_whose_entry_was_never_written_is_taken_at_the_end_of_the_test(
    journalled: Journalled,
    journal: Journal,
    node: ObjectRef,
    marks: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as over:
        over.setattr(journal, "write", _raise(OverLimit()))
        with pytest.raises(OverLimit):
            journalled.procedure("heal", {"node": node.name}, "a test")
    assert len(marks()) == 1
    assert outcomes(journalled.restore()) == [Outcome.UNCHANGED]
    assert marks() == []
    assert not [entry for entry in journal.entries() if entry.open]


def test_a_mark_that_could_not_be_taken_when_its_entry_was_closed_is_taken_at_the_end_of_the_test(
    journalled: Journalled,
    node: ObjectRef,
    marks: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = journalled.procedure("heal", {"node": node.name}, "a test")
    with monkeypatch.context() as away:
        removing_marks_fails(away)
        with pytest.raises(EnvironmentBroken):
            journalled.close(entry)
    assert marks() == [entry.mark_name]
    assert outcomes(journalled.restore()) == [Outcome.UNCHANGED]
    assert marks() == []


@pytest.mark.parametrize("worker", ["", "gw0"])
def test_a_mark_that_stays_after_the_test_is_taken_at_the_end_of_its_process(
    *,
    journalled: Journalled,
    node: ObjectRef,
    marks: Callable[[], list[str]],
    end: Callable[[str], PutBack],
    monkeypatch: pytest.MonkeyPatch,
    worker: str,
) -> None:
    entry = journalled.procedure("heal", {"node": node.name}, "a test")
    with monkeypatch.context() as away:
        removing_marks_fails(away)
        assert outcomes(journalled.restore()) == [Outcome.FAILED]
        assert marks() == [entry.mark_name]
        stays = end(worker)
    (line,) = stays.lines
    assert (stays.problem, marks()) == (line, [entry.mark_name])
    assert f"{node.label} bears mark {entry.mark_name} of run j1" in line
    assert line.endswith("; put back by: pytest --kubeconfig=k --restore")
    done = end(worker)
    assert (marks(), done.problem) == ([], "")
    assert done.lines == (
        f"{node.label} bears mark {entry.mark_name} of run j1, whose change is over: "
        "the mark is removed",
    )


def test_a_mark_of_a_process_that_died_before_its_entry_is_taken_and_others_stay(
    *,
    kube: Kube,
    node: ObjectRef,
    marks: Callable[[], list[str]],
    end: Callable[[str], PutBack],
) -> None:
    names = {f"calico-conformance/change-1-{worker}": f"{RUN.run} 0" for worker in ("gw0", "gw1")}
    patch = {"metadata": {"annotations": names}}
    Changes(kube, RUN).patch(node, patch, "a test", foreign=True)
    assert end("gw0").problem == ""
    assert marks() == ["calico-conformance/change-1-gw1"]
