# SPDX-License-Identifier: Apache-2.0
"""Pull secrets are created and never patched: the answer to a PATCH has the whole Secret, so the
right to patch would be a right to read."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.kube.refused import ApiRefused
from conformance.pods.deploy import Pods
from conformance.pods.pull_secrets import MOST_COPIES, copy_pull_secrets, unusable_pull_secrets
from conformance.settings import Images, Settings, load_timings
from tests.unit.conformance.pods.test_namespaces import Nodes, Recorded

IMAGES = Images(pull_secrets=("mirror",))


class Secrets(Nodes):
    """Namespace default has the pull secret."""

    def get(self, api: str, kind: str, name: str, space: str) -> dict[str, Any]:
        assert (kind, space) == ("Secret", "default")
        return {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}}


class Taking(Recorded):
    """Changes of a namespace that has these Secrets already."""

    def __init__(self, *taken: str, code: int = 409, reason: str = "AlreadyExists") -> None:
        super().__init__()
        self.taken, self.refusal = taken, (code, reason)
        self.secrets, self.applied = dict[str, Any](), list[dict[str, Any]]()

    def apply(self, obj: Any, why: str, **more: Any) -> None:
        assert obj["kind"] != "Secret"
        self.applied.append(obj)

    def create(self, obj: Any, why: str, *, namespace: str) -> None:
        name = obj["metadata"]["name"]
        if name in self.taken:
            raise ApiRefused(*self.refusal, f'secrets "{name}" already exists', "POST /api/v1/...")
        self.secrets[name] = obj


def pods(changes: Recorded) -> Pods:
    settings = Settings(timings=load_timings(), run_id="r", images=IMAGES)
    return Pods(Secrets(), changes, None, settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("taken", "called"), [((), "mirror"), (("mirror", "mirror-2"), "mirror-3")]
)
def test_a_copy_has_a_name_of_its_own_and_pods_pull_with_it(
    taken: tuple[str, ...], called: str
) -> None:
    changes = Taking(*taken)
    made = pods(changes)
    made.prepare("calico-demo-r-main")
    assert list(changes.secrets) == [called]
    assert changes.secrets[called]["type"] == "kubernetes.io/dockerconfigjson"
    pod = {"kind": "Pod", "spec": {"imagePullSecrets": [{"name": "mirror"}, {"name": "other"}]}}
    made.apply(pod, "a pod", "calico-demo-r-main")
    made.apply(
        {"kind": "Deployment", "spec": {"template": pod}}, "a workload", "calico-demo-r-main"
    )
    assert [item["name"] for item in pod["spec"]["imagePullSecrets"]] == [called, "other"]  # type: ignore[index]
    assert changes.applied[-1]["spec"]["template"]["spec"]["imagePullSecrets"][0] == {
        "name": called
    }


def test_who_may_not_create_secrets_is_told_so_and_nothing_is_tried_again() -> None:
    changes = Taking("mirror", code=403, reason="Forbidden")
    with pytest.raises(ApiRefused):
        copy_pull_secrets(Secrets(), changes, IMAGES, "calico-demo-r-main")  # type: ignore[arg-type]
    assert changes.secrets == {}


def test_copies_come_to_an_end() -> None:
    changes = Taking("mirror", *(f"mirror-{number}" for number in range(2, MOST_COPIES + 1)))
    with pytest.raises(EnvironmentBroken, match="has 9 copies of pull secret mirror"):
        copy_pull_secrets(Secrets(), changes, IMAGES, "calico-demo-r-main")  # type: ignore[arg-type]


class Asked:
    """A cluster with this secret in namespace default, or none; its user may create others."""

    def __init__(self, kind: str, *, may: bool = True) -> None:
        self.kind, self.may, self.access = kind, may, SimpleNamespace(user="runner")

    def get(self, api: str, kind: str, name: str, space: str) -> dict[str, Any]:
        if not self.kind:
            raise ApiRefused(404, "NotFound", f'secrets "{name}" not found', "GET /api/v1/...")
        return {"type": self.kind}

    def request(self, method: str, path: str, **more: Any) -> Any:
        return {"status": {"allowed": self.may}}


DOCKER = "kubernetes.io/dockerconfigjson"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (Asked(DOCKER), []),
        (Asked(""), ["pull secret mirror cannot be read in namespace default: .*not found"]),
        (
            Asked("Opaque"),
            ["pull secret mirror has type Opaque, which kubelets cannot use; create it with"],
        ),
        (
            Asked(DOCKER, may=False),
            ["runner may not create secrets in all namespaces, .*pull-secrets"],
        ),
        (
            Asked("", may=False),
            ["runner may not create secrets", "pull secret mirror cannot be read"],
        ),
    ],
)
def test_a_secret_that_cannot_be_used_is_one_line_before_the_run(
    asked: Asked, told: list[str]
) -> None:
    found = unusable_pull_secrets(asked, IMAGES)  # type: ignore[arg-type]
    assert len(found) == len(told)
    for line, expected in zip(found, told, strict=True):
        assert re.match(expected, line), line
        assert "\n" not in line


def test_nothing_is_asked_where_no_secret_is_named() -> None:
    assert unusable_pull_secrets(None, Images()) == []  # type: ignore[arg-type]
