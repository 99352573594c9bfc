# SPDX-License-Identifier: Apache-2.0
"""Everything that a worker created is removed, even if some of it could not be created."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, UsageProblem
from conformance.kube.ownership import Ownership
from conformance.kube.reach import Reach
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef
from conformance.pods.deploy import Pods
from conformance.settings import Settings, load_timings


class Recorded:
    """Changes that fail where they are told to, and note what was deleted."""

    dry_run = False

    def __init__(self, *, foreign: bool = False, refuses: bool = False, answer: int = 0) -> None:
        self.run = Ownership("r", "main")
        self.foreign, self.refuses = foreign, refuses
        self.answer, self.deleted, self.forced = answer, list[str](), list[tuple[str, str, int]]()

    def namespace(self, name: str, **more: Any) -> None:
        if self.foreign:
            raise UsageProblem(f"namespace {name} exists and does not belong to this run")
        if self.answer:
            raise ApiRefused(
                self.answer, "Forbidden", "the webhook says no", "POST /api/v1/namespaces"
            )

    def apply(self, obj: Any, why: str, **more: Any) -> None:
        if self.refuses:
            raise EnvironmentBroken("a quota forbids it")

    def delete(self, target: ObjectRef, why: str, *, grace: int) -> None:
        self.forced.append((target.kind, target.name, grace))

    def delete_and_wait(self, target: ObjectRef, why: str, *, within: float) -> None:
        self.deleted.append(target.name)


class Nodes:
    """The pods of a namespace stand on node here, which lives, and on node dead."""

    def objects(self, api: str, kind: str, space: str = "") -> list[dict[str, Any]]:
        if kind == "Node":
            return [self.find(api, kind, name) for name in ("here", "dead")]
        if kind != "Pod":
            return []
        places = {"p1": "here", "p2": "dead", "p3": ""}
        return [{"metadata": {"name": name, "namespace": space}, "spec": {"nodeName": node}}
                for name, node in places.items()]  # fmt: skip

    def find(self, api: str, kind: str, name: str) -> dict[str, Any]:
        ready = {
            "type": "Ready",
            "status": "Unknown" if name == "dead" else "True",
            "reason": "r",
            "message": "m",
        }
        return {
            "metadata": {"name": name},
            "spec": {},
            "status": {"conditions": [ready], "nodeInfo": {}},
        }


def pods(changes: Recorded) -> Pods:
    settings = Settings(timings=load_timings(), run_id="r")
    return Pods(Nodes(), changes, None, settings)  # type: ignore[arg-type]


def test_a_namespace_is_removed_although_nothing_could_be_put_into_it() -> None:
    changes = Recorded(refuses=True)
    made = pods(changes)
    with pytest.raises(EnvironmentBroken):
        made.prepare("calico-demo-r-main")
    made.remove()
    assert changes.deleted == ["calico-demo-r-main"]


def test_what_is_on_a_node_that_died_does_not_keep_its_namespace() -> None:
    changes = Recorded()
    made = pods(changes)
    made.prepare("calico-demo-r-main")
    made.remove()
    assert changes.forced == [("Pod", "p2", 0)]
    assert changes.deleted == ["calico-demo-r-main"]


def test_a_namespace_of_somebody_else_is_never_removed() -> None:
    changes = Recorded(foreign=True)
    made = pods(changes)
    with pytest.raises(UsageProblem):
        made.prepare("calico-demo-r-main")
    made.remove()
    assert changes.deleted == []


@pytest.mark.parametrize(
    "there", [None, {"metadata": {"name": "x", "deletionTimestamp": "2026-11-26T12:00:00Z"}}]
)
def test_a_namespace_that_somebody_deletes_is_named_and_its_pods_are_waited_for_no_longer(
    there: Any,
) -> None:
    def waited(*_: Any, lost: Any, **__: Any) -> None:
        raise lost() or EnvironmentBroken("its patience is over")

    node = Nodes().find("v1", "Node", "here")
    changes: Any = SimpleNamespace(
        run=Ownership("r", "main"), waits=SimpleNamespace(pods_ready=waited)
    )
    made = pods(changes)
    made.kube = made.watch.kube = SimpleNamespace(  # type: ignore[assignment]
        find=lambda api, kind, name: there if kind == "Namespace" else node, objects=lambda *_: []
    )
    wish: Any = SimpleNamespace(
        namespace=None,
        role="linux-server",
        node=SimpleNamespace(name="here", os="linux"),
        called="linux-server-1",
    )
    with pytest.raises(
        EnvironmentBroken,
        match=r"^namespace calico-demo-r-main of this run was deleted while it was in use",
    ):
        made.again(wish, "pod a is gone")
    there = {"metadata": {"name": "x"}}
    with pytest.raises(EnvironmentBroken, match="no other pod is ready: its patience is over"):
        made.again(wish, "pod a is gone")


@pytest.mark.parametrize(
    ("answer", "namespace", "ends"),
    [
        (403, "calico-demo-r-main", True),
        (429, "calico-demo-r-main", False),
        (500, "calico-demo-r-main", False),
        (403, "calico-demo-r-main-host", False),
    ],
)
def test_the_run_ends_where_its_own_namespace_is_refused(
    answer: int, namespace: str, ends: bool, tmp_path: Path
) -> None:
    made = pods(Recorded(answer=answer))
    made.kube = SimpleNamespace(reach=Reach(tmp_path))  # type: ignore[assignment]
    with pytest.raises(ApiRefused):
        made.prepare(namespace)
    said = (
        "the run cannot create a namespace: "
        "POST /api/v1/namespaces: 403 Forbidden: the webhook says no"
    )
    assert made.kube.reach.ended == (said if ends else "")
