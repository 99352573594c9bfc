# SPDX-License-Identifier: Apache-2.0
"""Prepared namespaces: which namespaces these are, which of them a run may use, and that nothing
outside them is changed."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.enforcement.seats import BYSTANDERS
from conformance.errors import EnvironmentBroken, UsageProblem
from conformance.kube import prepared
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.guard import GuardRefused, check
from conformance.kube.ownership import Ownership
from conformance.kube.runner import user_of_prefix
from conformance.model.change import Change, ObjectRef
from conformance.policy.worlds import NAMESPACE_LABELS, SPACES

RUN = Ownership("r1", "gw1", prefix="team-a")
HERE = "team-a-gw1"
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


def namespace(name: str, labels: dict[str, str], **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels, **more},
    }


class Cluster:
    """The namespaces of two workers, and pods in some of them."""

    def __init__(self, workers: int = 2) -> None:
        names = prepared.needed("team-a", workers or 1).items()
        self.spaces = {
            name: namespace(name, labels) for name, labels in names if workers or "-gw" not in name
        }
        self.pods: dict[str, list[dict[str, Any]]] = {}

    def objects(
        self, api: str, kind: str, space: str | None = None, **_: str
    ) -> list[dict[str, Any]]:
        return list(self.spaces.values()) if kind == "Namespace" else self.pods.get(str(space), [])


def usable(cluster: Cluster) -> tuple[int, list[str]]:
    return prepared.usable(cluster, "team-a")  # type: ignore[arg-type]


def test_namespaces_have_the_labels_that_policies_and_worlds_select() -> None:
    spaces = prepared.needed("team-a", 1)
    assert {
        space: spaces[f"team-a-gw0-world-{space}"] for space in NAMESPACE_LABELS
    } == NAMESPACE_LABELS
    assert {f"team-a-gw0-world-{space}" for space in (*SPACES, BYSTANDERS)} < set(spaces)
    assert (
        Ownership("r1", prefix="team-a").namespace
        == Ownership("r2", "gw0", prefix="team-a").namespace
        == "team-a-gw0"
    )
    assert Ownership("r1", "watch", prefix="team-a").namespace in spaces
    _, objects = user_of_prefix("team-a", 1)
    enforced = {obj["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] for obj in objects
                if obj["kind"] == "Namespace" and obj["metadata"]["name"] in spaces}  # fmt: skip
    bound = {obj["metadata"]["namespace"] for obj in objects if obj["kind"] == "RoleBinding"}
    assert (enforced, bound) == ({"baseline"}, set(spaces))


def test_as_many_workers_run_as_are_prepared_for() -> None:
    assert usable(Cluster(3)) == (3, [])
    assert usable(Cluster(0))[1][0].startswith(
        "--namespaces-prefix team-a: namespace team-a-gw0 does not exist (and 4 more)"
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"labels": {}},
            "namespace team-a-gw1-elsewhere lacks the label conformance/team=elsewhere",
        ),
        (
            {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "namespace team-a-gw1-elsewhere is being deleted",
        ),
    ],
)
def test_what_a_run_cannot_use_is_named_with_the_command_that_mends_it(
    change: dict[str, Any], says: str
) -> None:
    cluster = Cluster()
    cluster.spaces["team-a-gw1-elsewhere"]["metadata"] |= change
    (line,) = usable(cluster)[1]
    assert says in line
    assert line.endswith(
        "make them:  calico-conformance namespaces team-a --workers 2 | kubectl apply -f -"
    )


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({"app": "shop"}, "p (2 pods in all) does not belong to the suite; nothing was changed"),
        (Ownership("r9").labels, "belongs to run r9; wait for that run, or, if it is dead, run:  pytest "),
    ],
)  # fmt: skip
def test_a_namespace_with_pods_is_refused(labels: dict[str, str], says: str) -> None:
    cluster = Cluster()
    pod = {"metadata": {"name": "p", "namespace": "team-a-prepull", "labels": labels}}
    cluster.pods["team-a-prepull"] = [pod, pod]
    (line,) = usable(cluster)[1]
    assert says in line


@pytest.mark.parametrize(
    "prefix", ["", "-a", "a-", "Team", "a.b", "a" * 41, "calico-demo", "calico-demo-x"]
)
def test_what_no_namespace_can_begin_with_is_refused(prefix: str) -> None:
    with pytest.raises(UsageProblem):
        prepared.needed(prefix, 1)


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize(
    ("kind", "name", "space"),
    [
        ("Namespace", HERE, None), ("Namespace", "team-a-gw9", None), ("ConfigMap", "c", "kube-system"),
        ("ConfigMap", "c", "team-ab-gw1"), ("GlobalNetworkPolicy", "team-a-gw1-deny", None),
        ("Tier", "team-a-gw1-first", None), ("Node", "n", None),
        ("Lease", "run-lock", "calico-conformance-system"), ("ConfigMap", "c", "calico-demo-r1-gw1"),
    ],
)  # fmt: skip
def test_nothing_beyond_prepared_namespaces_is_changed(
    *, kind: str, name: str, space: str | None, flag: bool
) -> None:
    target = ObjectRef(api_version="v1", kind=kind, name=name, namespace=space)
    for verb in ("create", "patch", "delete"):
        change = Change(
            verb=verb, target=target, why="x", body={"spec": {}}, cluster_scoped_or_foreign=flag
        )
        with pytest.raises(
            GuardRefused, match="a run changes only what is in the namespaces team-a-"
        ):
            check(change, RUN)


def test_what_is_in_a_prepared_namespace_is_changed() -> None:
    target = ObjectRef(api_version="v1", kind="ConfigMap", name="c", namespace="team-a-gw0-world-a")
    check(Change(verb="create", target=target, why="x", body={}), RUN)


def test_a_prepared_namespace_is_looked_for_and_never_made(kube: Kube, api: Any) -> None:
    api.routes[f"GET /api/v1/namespaces/{HERE}"] = (200, namespace(HERE, {}))
    changes = Changes(kube, RUN)
    changes.namespace(HERE, labels={"a": "b"}, why="x")
    with pytest.raises(
        EnvironmentBroken,
        match="namespace team-a-gw7, which the cluster's owner must prepare, does not exist",
    ):
        changes.namespace("team-a-gw7", why="x")
    assert {request.method for request in api.requests} == {"GET"}


@pytest.mark.parametrize(("owner", "free"), [("r1", True), ("r9", False)])
def test_a_namespace_that_another_run_holds_is_left_alone(
    *, kube: Kube, api: Any, fakes: Any, owner: str, free: bool
) -> None:
    held = Ownership(owner, "gw1", prefix="team-a").sign({**POD, "kind": "ConfigMap"})
    path = f"/api/v1/namespaces/{HERE}/configmaps"
    api.routes = {
        f"POST {path}": fakes.status(409, "AlreadyExists", "exists"),
        f"GET {path}/p": (200, held),
    }
    if free:
        prepared.hold(Changes(kube, RUN), {**POD, "kind": "ConfigMap"}, "x", HERE)
    else:
        with pytest.raises(EnvironmentBroken, match=f"namespace {HERE} is in use by run r9"):
            prepared.hold(Changes(kube, RUN), {**POD, "kind": "ConfigMap"}, "x", HERE)
    assert {request.method for request in api.requests} <= {"GET", "POST"}


def test_a_worker_that_replaces_a_dead_one_says_what_is_not_prepared_for_it() -> None:
    owners = [Ownership("ab12", worker, prefix="team-a") for worker in ("main", "gw0", "gw1")]
    assert [prepared.not_prepared(own, 2) for own in owners] == ["", "", ""]
    assert prepared.not_prepared(Ownership("ab12", "gw2", prefix="team-a"), 2) == (
        "no namespace team-a-gw2 is prepared for worker gw2, which replaces a worker that died; "
        "prepare more:  "
        "calico-conformance namespaces team-a --workers 3 | kubectl apply -f -"
    )
    assert prepared.not_prepared(Ownership("ab12", "gw2"), 0) == "", "it makes its own"
