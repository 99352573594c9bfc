# SPDX-License-Identifier: Apache-2.0
"""Pull secrets are created and never patched: a PATCH answers with the Secret, so who may patch reads every one."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.kube.refused import ApiRefused
from conformance.pods.deploy import MOST_COPIES, Pods, copy_pull_secrets
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
