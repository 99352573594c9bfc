"""What a worker made is removed, also when not everything in it could be made."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, UsageProblem
from conformance.kube.ownership import Ownership
from conformance.model.change import ObjectRef
from conformance.pods.deploy import Pods
from conformance.settings import Settings, load_timings


class Recorded:
    """Changes that fail where they are told to, and note what was deleted."""

    dry_run = False

    def __init__(self, *, foreign: bool = False, refuses: bool = False) -> None:
        self.run = Ownership("r", "main")
        self.foreign, self.refuses = foreign, refuses
        self.deleted: list[str] = []

    def namespace(self, name: str, **more: Any) -> None:
        if self.foreign:
            raise UsageProblem(f"namespace {name} exists and is not this run's")

    def apply(self, obj: Any, why: str, **more: Any) -> None:
        if self.refuses:
            raise EnvironmentBroken("a quota forbids it")

    def delete_and_wait(self, target: ObjectRef, why: str, *, within: float) -> None:
        self.deleted.append(target.name)


def pods(changes: Recorded) -> Pods:
    settings = Settings(timings=load_timings(), run_id="r")
    return Pods(None, changes, None, settings)  # type: ignore[arg-type]


def test_a_namespace_is_removed_although_nothing_could_be_put_into_it() -> None:
    changes = Recorded(refuses=True)
    made = pods(changes)
    with pytest.raises(EnvironmentBroken):
        made.prepare("calico-demo-r-main")
    made.remove()
    assert changes.deleted == ["calico-demo-r-main"]


def test_a_namespace_of_somebody_else_is_never_removed() -> None:
    changes = Recorded(foreign=True)
    made = pods(changes)
    with pytest.raises(UsageProblem):
        made.prepare("calico-demo-r-main")
    made.remove()
    assert changes.deleted == []
