"""What was changed through Calico's API server is put back although that server is away, where it stores it."""

from __future__ import annotations

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


class Cluster:
    """FelixConfiguration as Calico's API server serves it, unless it is away, and as it stores it."""

    def __init__(self, *, away: bool, served: tuple[str, ...] = (V3, CRD)) -> None:
        self.away, self.served = away, served
        self.discovery = SimpleNamespace(serves=lambda api, kind: api in self.served)
        self.vni = 4097
        self.log: list[str] = []

    kube = property(lambda self: self)

    def find(self, api: str, kind: str, name: str, namespace: str | None = None) -> Any:
        if api == V3 and self.away:
            raise ApiRefused(503, "ServiceUnavailable", "error trying to reach service", f"GET {kind}")
        meta = {"name": name, "uid": f"uid in {api}", "resourceVersion": "7"}
        return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": {"vxlanVNI": self.vni}}

    def patch(self, target: ObjectRef, patch: Any, why: str, *, foreign: bool) -> None:
        self.log.append(f"patch {target.api_version} {patch['spec']}")
        self.vni = patch["spec"]["vxlanVNI"]


def put_back(cluster: Cluster) -> Any:
    target = ObjectRef(api_version=V3, kind="FelixConfiguration", name="default")
    entry = Entry(key="1", act="patch", why="a test", state="done", target=target, uid=f"uid in {V3}", fields=(FIELD,))
    closed: list[str] = []
    journal: Any = SimpleNamespace(
        entries=lambda: [entry], mark=lambda one, state: closed.append(state), within=0.1,
        run=SimpleNamespace(run="r"),
    )  # fmt: skip
    (done,) = restore(journal, cluster, {})  # type: ignore[arg-type]
    return done, closed


@pytest.mark.parametrize(("away", "api"), [(False, V3), (True, CRD)])
def test_it_is_put_back_by_whichever_api_answers(away: bool, api: str) -> None:
    cluster = Cluster(away=away)
    done, closed = put_back(cluster)
    assert done.outcome is Outcome.RESTORED, str(done)
    assert (cluster.vni, cluster.log, closed) == (4096, [f"patch {api} {{'vxlanVNI': 4096}}"], ["closed"])
    assert api in done.text


def test_a_group_that_is_not_served_any_more_is_no_object_that_is_gone() -> None:
    cluster = Cluster(away=False, served=(CRD,))
    assert put_back(cluster)[0].outcome is Outcome.RESTORED
    nowhere, closed = put_back(Cluster(away=False, served=()))
    assert nowhere.outcome is Outcome.FAILED
    assert "projectcalico.org/v3 is not served" in nowhere.text
    assert closed == [], "the entry stays open for the next --restore"
