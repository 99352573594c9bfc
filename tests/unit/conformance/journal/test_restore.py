# SPDX-License-Identifier: Apache-2.0
"""A journalled change is put back only where the object still holds the run's value, and what was
put back is read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.journal import Entry, Outcome, Restored
from conformance.journal.fields import touched
from conformance.journal.restore import CONFLICTS, restore
from conformance.kube import guard
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef

Obj = dict[str, Any]
V3 = "projectcalico.org/v3"
FELIX = ObjectRef(api_version=V3, kind="FelixConfiguration", name="default")
NODE = ObjectRef(api_version="v1", kind="Node", name="w1")
POOL = ObjectRef(api_version=V3, kind="IPPool", name="calico-demo-r1-pool")
PATCH = Entry(
    key="1",
    act="patch",
    why="a test",
    run="r1",
    state="done",
    uid="u-1",
    target=FELIX,
    fields=touched({"spec": {"vxlanVNI": 4096}}, {"spec": {"vxlanVNI": 4097, "vxlanPort": 4790}}),
)
CREATED = replace(PATCH, act="create", target=POOL, fields=(), uid="u-1")
PROCEDURE = replace(
    PATCH,
    act="procedure",
    procedure="felix-restart",
    target=NODE,
    fields=(),
    arguments={"node": "w1"},
)


def an_object(entry: Entry, *, mark: str | None = None, **spec: Any) -> Obj:
    """The object of an entry, with the entry's mark unless another is said."""
    annotations = {entry.mark_name: entry.mark if mark is None else mark}
    meta = {"uid": "u-1", "resourceVersion": "7", "annotations": annotations}
    return {"metadata": meta, "spec": spec}


@dataclass
class Cluster:
    """A cluster with one object, or none."""

    obj: Obj | None
    owned: bool = True
    refuses: int = 0
    """The status with which patches are refused."""
    resists: bool = False
    """A patch is accepted and changes nothing."""
    patches: list[Obj] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    gone_late: bool = False

    def __post_init__(self) -> None:
        self.kube = self.run = self.waits = self
        self.discovery = SimpleNamespace(serves=lambda api, kind: True)

    def find(self, *_: Any) -> Obj | None:
        return self.obj

    def owns(self, obj: Obj) -> bool:
        return self.owned

    def patch(self, target: ObjectRef, patch: Obj, why: str, *, foreign: bool) -> None:
        self.patches.append(patch)
        if self.refuses:
            raise ApiRefused(self.refuses, "Conflict", "changed", "PATCH")
        if not self.resists:
            self.obj = guard.merged(self.obj, patch)

    def delete(self, target: ObjectRef, why: str, *, foreign: bool) -> None:
        self.deleted.append(target.name)

    def gone(self, target: ObjectRef, *, within: float) -> None:
        if self.gone_late:
            raise EnvironmentBroken(f"{target.label} stays")


def put_back(
    cluster: Cluster, entry: Entry, healers: dict[str, Callable[..., None]] | None = None
) -> Restored:
    """Restore a journal with one entry."""
    journal: Any = SimpleNamespace(
        entries=lambda unreadable: [entry],
        close=lambda one: cluster.closed.append(one.key),
        within=0.1,
        run=SimpleNamespace(run="r1"),
        ref=ObjectRef(
            api_version="v1",
            kind="ConfigMap",
            name="journal-r1",
            namespace="calico-conformance-system",
        ),
    )
    changes: Any = cluster
    (done,) = restore(journal, changes, healers or {})
    assert bool(cluster.closed) is (done.outcome not in (Outcome.FAILED, Outcome.REFUSED))
    return done


HELD: Obj = {"vxlanVNI": 4097, "vxlanPort": 4790}
AGAIN = ".spec.vxlanVNI is 4096 again, .spec.vxlanPort is absent again"
FOREIGN = ".spec.vxlanPort was absent, was set to 4790 by this suite and is now 5000"


@pytest.mark.parametrize(
    ("spec", "outcome", "text", "after"),
    [
        pytest.param(HELD, Outcome.RESTORED, AGAIN, {"vxlanVNI": 4096}, id="as the run left it"),
        pytest.param(
            {**HELD, "theirs": 1},
            Outcome.RESTORED,
            AGAIN,
            {"vxlanVNI": 4096, "theirs": 1},
            id="other fields stay",
        ),
        pytest.param(
            {"vxlanVNI": 4096},
            Outcome.UNCHANGED,
            "",
            {"vxlanVNI": 4096},
            id="as before: only its mark goes",
        ),
        pytest.param(
            {**HELD, "vxlanPort": 5000},
            Outcome.CONFLICT,
            f"{FOREIGN}: the value of another owner is kept",
            {"vxlanVNI": 4096, "vxlanPort": 5000},
            id="a value of somebody else stays beside",
        ),
        pytest.param(
            {"vxlanVNI": 1, "vxlanPort": 5000},
            Outcome.CONFLICT,
            "the value of another owner is kept",
            {"vxlanVNI": 1, "vxlanPort": 5000},
            id="all values are somebody else's",
        ),
    ],
)
def test_a_field_is_put_back_only_while_it_holds_the_run_s_value(
    spec: Obj, outcome: Outcome, text: str, after: Obj
) -> None:
    cluster = Cluster(an_object(PATCH, **spec))
    done = put_back(cluster, PATCH)
    assert (done.outcome, text in done.text) == (outcome, True), done.text
    assert cluster.obj is not None
    assert cluster.obj["spec"] == after
    assert PATCH.mark_name not in cluster.obj["metadata"].get("annotations", {}), (
        "the mark goes as well"
    )
    assert [patch["metadata"]["resourceVersion"] for patch in cluster.patches] == ["7"]


def test_what_is_as_before_and_unmarked_is_not_written() -> None:
    bare = an_object(PATCH, vxlanVNI=4096)
    bare["metadata"]["annotations"] = {}
    cluster = Cluster(bare)
    assert put_back(cluster, PATCH).outcome is Outcome.UNCHANGED
    assert cluster.patches == []


@pytest.mark.parametrize(
    ("cluster", "outcome", "text"),
    [
        pytest.param(Cluster(None), Outcome.CONFLICT, ": the object is gone", id="gone"),
        pytest.param(
            Cluster(an_object(PATCH, mark="r1 another", **HELD)),
            Outcome.REFUSED,
            "is marked for another change: the journal entry was altered; nothing was done",
            id="another mark",
        ),
        pytest.param(
            Cluster(an_object(PATCH, **HELD), resists=True),
            Outcome.FAILED,
            "after it was put back: .spec.vxlanVNI expected 4096, observed 4097; "
            ".spec.vxlanPort expected absent, observed 4790",
            id="it does not stay put back",
        ),
    ],
)
def test_what_cannot_be_put_back_is_told(cluster: Cluster, outcome: Outcome, text: str) -> None:
    done = put_back(cluster, PATCH)
    assert (done.outcome, text in done.text) == (outcome, True), done.text
    assert done.by_hand


@pytest.mark.parametrize("code", [409, 404])
def test_an_object_that_changes_meanwhile_is_read_again_some_times(code: int) -> None:
    cluster = Cluster(an_object(PATCH, **HELD), refuses=code)
    done = put_back(cluster, PATCH)
    assert (done.outcome, len(cluster.patches)) == (Outcome.FAILED, CONFLICTS)
    assert done.text.endswith(": the object was changed by others during each attempt")


def test_a_refused_patch_leaves_the_entry_for_the_next_restore() -> None:
    cluster = Cluster(an_object(PATCH, **HELD), refuses=403)
    done = put_back(cluster, PATCH)
    assert (done.outcome, len(cluster.patches)) == (Outcome.FAILED, 1)
    assert str(done).endswith("403 Conflict: changed; once that is repaired: pytest --restore")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (replace(PATCH, run="r2"), "it names run r2"),
        (replace(PATCH, target=replace(FELIX, name="other")), "this suite makes no such change"),
        (
            replace(PATCH, fields=touched({}, {"spec": {"bpfEnabled": True}})),
            "this suite does not change .spec.bpfEnabled in such a way",
        ),
    ],
)
def test_an_entry_that_no_run_like_this_wrote_is_left_alone(entry: Entry, why: str) -> None:
    cluster = Cluster(an_object(entry, **HELD))
    done = put_back(cluster, entry)
    assert done.outcome is Outcome.REFUSED
    assert f": {why}; nothing was done" in done.text
    assert "kubectl delete configmap -n calico-conformance-system journal-r1" in done.by_hand
    assert cluster.patches == []


@pytest.mark.parametrize(
    ("cluster", "outcome", "text", "deleted"),
    [
        pytest.param(
            Cluster(an_object(CREATED)),
            Outcome.RESTORED,
            "which this suite made, is removed",
            True,
            id="there",
        ),
        pytest.param(Cluster(None), Outcome.UNCHANGED, "is gone", False, id="gone"),
        pytest.param(
            Cluster(guard.merged(an_object(CREATED), {"metadata": {"deletionTimestamp": "t"}})),
            Outcome.UNCHANGED,
            "is gone",
            False,
            id="going",
        ),
        pytest.param(
            Cluster(an_object(CREATED), owned=False),
            Outcome.REFUSED,
            "it does not have the run's labels",
            False,
            id="somebody else's",
        ),
        pytest.param(
            Cluster(an_object(CREATED, mark="r1 x")),
            Outcome.REFUSED,
            "is marked for another change",
            False,
            id="another mark",
        ),
        pytest.param(
            Cluster(an_object(CREATED), gone_late=True),
            Outcome.FAILED,
            "stays",
            True,
            id="it stays",
        ),
    ],
)
def test_a_created_object_is_removed_if_it_is_the_run_s(
    *, cluster: Cluster, outcome: Outcome, text: str, deleted: bool
) -> None:
    done = put_back(cluster, CREATED)
    assert (done.outcome, text in done.text) == (outcome, True), done.text
    assert cluster.deleted == ([POOL.name] if deleted else [])


def broken(*_: Any) -> None:
    raise KeyError("a bug")


def late(*_: Any) -> None:
    raise EnvironmentBroken("Felix does not start")


@pytest.mark.parametrize(
    ("obj", "heal", "outcome", "text"),
    [
        pytest.param({}, lambda *_: None, Outcome.RESTORED, "healed by felix-restart", id="healed"),
        pytest.param(None, lambda *_: None, Outcome.CONFLICT, "the node is gone", id="gone"),
        pytest.param({"mark": "x"}, broken, Outcome.REFUSED, "another change", id="another mark"),
        pytest.param({}, broken, Outcome.FAILED, "KeyError: 'a bug'", id="a broken healer"),
        pytest.param({}, late, Outcome.FAILED, "Felix does not start", id="it does not help"),
        pytest.param({}, None, Outcome.FAILED, "felix-restart", id="no healer"),
    ],
)
def test_a_procedure_is_undone_by_its_healer(
    obj: Obj | None, heal: Callable[..., None] | None, outcome: Outcome, text: str
) -> None:
    cluster = Cluster(None if obj is None else an_object(PROCEDURE, **obj))
    done = put_back(cluster, PROCEDURE, {"felix-restart": heal} if heal else {})
    assert (done.outcome, text in done.text) == (outcome, True), done.text
    if heal is None:
        assert done.by_hand == "undo it by hand: this suite has no such procedure (it has none)"


def test_a_healer_gets_the_run_and_what_was_noted() -> None:
    healed: list[tuple[str, Obj]] = []
    put_back(
        Cluster(an_object(PROCEDURE)),
        PROCEDURE,
        {"felix-restart": lambda run, arguments: healed.append((run, arguments))},
    )
    assert healed == [("r1", {"node": "w1"})]


def test_a_pod_that_its_owner_makes_anew_needs_nothing() -> None:
    pod = ObjectRef(api_version="v1", kind="Pod", name="web", namespace="shop")
    entry = replace(PATCH, act="delete-owned-pod", target=pod, fields=())
    done = put_back(Cluster(None), entry)
    assert done.outcome is Outcome.UNCHANGED
    assert done.text.endswith("its owner created a new pod")
