# SPDX-License-Identifier: Apache-2.0
"""Changes made through Calico's API server are restored in its storage if that server is away."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.journal import Outcome
from conformance.journal.fields import Content, Field
from conformance.journal.record import Entry
from conformance.journal.restore import restore
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef

V3, CRD = "projectcalico.org/v3", "crd.projectcalico.org/v1"
BEFORE, OURS = Content(present=True, value=4096), Content(present=True, value=4097)
FIELD = Field(path=("spec", "vxlanVNI"), before=BEFORE, ours=OURS, parents=1)


TARGET = ObjectRef(api_version=V3, kind="FelixConfiguration", name="default")
ENTRY = Entry(
    key="1",
    run="r",
    act="patch",
    why="a test",
    state="done",
    target=TARGET,
    uid=f"uid-in-{V3[-2:]}",
    fields=(FIELD,),
)
STORED = "projectcalico.org/metadata"


class Cluster:
    """FelixConfiguration as Calico's API server serves it, unless the server is away, and as the
    server stores it.

    The stored object has what the user annotated in an annotation of its own; ``both``: as that, and plainly.
    """

    def __init__(
        self,
        *,
        away: bool,
        served: tuple[str, ...] = (V3, CRD),
        mark: str = ENTRY.mark,
        both: bool = False,
    ) -> None:
        self.away, self.served, self.both = away, served, both
        self.annotations = {"theirs": "kept", ENTRY.mark_name: mark}
        self.discovery = SimpleNamespace(serves=lambda api, kind: api in self.served)
        self.vni = 4097
        self.log: list[str] = []

    kube = property(lambda self: self)

    def find(self, api: str, kind: str, name: str, namespace: str | None = None) -> Any:
        if api == V3 and self.away:
            raise ApiRefused(
                503, "ServiceUnavailable", "error trying to reach service", f"GET {kind}"
            )
        meta: dict[str, Any] = {"name": name, "uid": f"uid-in-{api[-2:]}", "resourceVersion": "7"}
        meta["annotations"] = dict(self.annotations) if api == V3 or self.both else {}
        if api == CRD:
            meta["annotations"][STORED] = json.dumps(
                {"name": name, "annotations": self.annotations}
            )
        return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": {"vxlanVNI": self.vni}}

    def patch(self, target: ObjectRef, patch: Any, why: str, *, foreign: bool) -> None:
        self.log.append(f"patch {target.api_version} {patch['spec']}")
        self.vni = patch["spec"]["vxlanVNI"]
        changed = patch["metadata"]["annotations"]
        if target.api_version == CRD:
            self.annotations = json.loads(changed[STORED])["annotations"]
        if target.api_version == V3 or self.both:
            assert changed[ENTRY.mark_name] is None
        if target.api_version == V3:
            self.annotations.pop(ENTRY.mark_name, None)


def put_back(cluster: Cluster) -> Any:
    closed: list[str] = []
    journal: Any = SimpleNamespace(
        entries=lambda unreadable: [ENTRY], close=lambda one: closed.append("closed"), within=0.1,
        run=SimpleNamespace(run="r"), ref=ObjectRef(api_version="v1", kind="ConfigMap", name="journal-r"),
    )  # fmt: skip
    (done,) = restore(journal, cluster, {})  # type: ignore[arg-type]
    return done, closed


@pytest.mark.parametrize(
    ("away", "api", "both"), [(False, V3, False), (True, CRD, False), (True, CRD, True)]
)
def test_it_is_put_back_by_whichever_api_answers(away: bool, api: str, both: bool) -> None:
    cluster = Cluster(away=away, both=both)
    done, closed = put_back(cluster)
    assert done.outcome is Outcome.RESTORED, str(done)
    assert (cluster.vni, cluster.log, closed) == (
        4096,
        [f"patch {api} {{'vxlanVNI': 4096}}"],
        ["closed"],
    )
    assert api in done.text
    assert cluster.annotations == {"theirs": "kept"}, "the mark goes with the change"


@pytest.mark.parametrize("away", [False, True])
def test_without_the_mark_it_is_left_there_too(away: bool) -> None:
    cluster = Cluster(away=away, mark="r another")
    done, closed = put_back(cluster)
    assert (done.outcome, cluster.vni, closed) == (Outcome.REFUSED, 4097, [])


def test_a_group_that_is_not_served_any_more_is_no_object_that_is_gone() -> None:
    cluster = Cluster(away=False, served=(CRD,))
    assert put_back(cluster)[0].outcome is Outcome.RESTORED
    nowhere, closed = put_back(Cluster(away=False, served=()))
    assert nowhere.outcome is Outcome.FAILED
    assert "projectcalico.org/v3 is not served" in nowhere.text
    assert closed == [], "the entry stays open for the next --restore"
